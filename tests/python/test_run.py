"""The command line trains and Python reads its run, to the same logits; and the other way round."""
import os
import subprocess

import pytest
import torch

import nru

CELL_OPTIONS = {"nru": ["cell.memory_size=4", "cell.heads=4"]}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(cell, directory, *settings, seed=1):
    """A run on the copying task."""
    sets = [word for setting in settings for word in ("--set", setting)]
    command = [os.environ["NRU_BINARY"], "train", "--task", "copy", "--cell", cell, "--lag", 3]
    run(*command, "--seed", seed, "--out", directory, *sets)
    return directory


def train_small(cell, directory):
    options = CELL_OPTIONS.get(cell, [])
    return train(cell, directory, "cell.hidden_size=6", "batch_size=3", "updates=4", *options)


def cpp_logits(directory, weights, x, folder):
    """What C++ makes of x [T, B, I] with the run's configuration and these weights."""
    nru.save(folder / "x.safetensors", {"x": x})
    out = folder / "out.safetensors"
    run(os.environ["NRU_LOGITS"], directory, weights, folder / "x.safetensors", out)
    return nru.load(out)["logits"]


@pytest.fixture(scope="module", params=sorted(nru.CLASSES))
def run_directory(request, tmp_path_factory):
    return train_small(request.param, tmp_path_factory.mktemp("runs") / request.param)


def test_a_run_gives_the_same_logits(run_directory, tmp_path):
    x = torch.randn(7, 5, 10)
    for weights in ("best", "checkpoint"):
        model = nru.load_run(run_directory, weights)
        assert model.layer.input_size == 10 and not model.training
        expected = cpp_logits(run_directory, run_directory / f"{weights}.safetensors", x, tmp_path)
        assert expected.abs().max() > 1e-3
        torch.testing.assert_close(model(x)[0], expected, rtol=1e-6, atol=1e-6)


def test_cpp_reads_what_python_writes(run_directory, tmp_path):
    model, x = nru.load_run(run_directory), torch.randn(7, 5, 10)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    # With the metadata of the run's file, whose checksums do not hold for this one.
    source, path = run_directory / "best.safetensors", tmp_path / "mine.safetensors"
    assert nru.metadata(source)["task"] == "copy"
    nru.save(path, model.state_dict(), nru.metadata(source))
    expected = cpp_logits(run_directory, path, x, tmp_path)
    torch.testing.assert_close(model(x)[0], expected, rtol=1e-6, atol=1e-6)


def test_a_damaged_file_is_noticed(tmp_path):
    path = train_small("lstm", tmp_path / "run") / "best.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        nru.load(path)


def test_a_seed_is_the_same_network_as_in_cpp(tmp_path):
    """`nru train` draws the layer from its seed; an update of 1e-30 changes no float."""
    directory = train("nru", tmp_path / "run", "updates=1", "learning_rate=1e-30", seed=7)
    layer = nru.NRU(10, 80)
    layer.reset_parameters(seed=7)
    stored = nru.load(directory / "best.safetensors")
    for name, parameter in layer.named_parameters():
        assert torch.equal(parameter, stored[f"layer.{name}"])
