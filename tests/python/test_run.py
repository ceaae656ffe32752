"""The command line trains and Python reads its run, to the same logits; and the other way round."""
import os
import pathlib
import subprocess

import pytest
import torch

import nru

CELL_OPTIONS = {"nru": ["cell.memory_size=4", "cell.heads=4"]}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(cell, directory, *settings, seed=1, task=("copy", "--lag", 3)):
    sets = [word for setting in settings for word in ("--set", setting)]
    command = [os.environ["NRU_BINARY"], "train", "--task", *task, "--cell", cell]
    run(*command, "--seed", seed, "--out", directory, *sets)
    return directory


def train_small(cell, directory):
    options = CELL_OPTIONS.get(cell, [])
    return train(cell, directory, "cell.hidden_size=6", "batch_size=3", "updates=4", *options)


def cpp_logits(directory, weights, x, folder):
    """What C++ makes of x, [T, B, I] or ids [T, B], with the run's settings and these weights."""
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


@pytest.mark.parametrize("width", [0, 5])
def test_a_run_on_text(tmp_path, width):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat; " * 60)
    small = ("cell.hidden_size=6", "batch_size=2", "task_options.window=20", "updates=4")
    options = (*small, f"task_options.text={text}", f"task_options.embedding={width}")
    directory = train("lstm", tmp_path / "run", *options, task=("char-lm",))
    before = torch.get_rng_state()
    model = nru.load_run(directory)
    assert torch.equal(torch.get_rng_state(), before)
    symbols = model.vocabulary
    assert set("the cat sat on the mat; ") <= set(symbols)
    assert nru.load_run(directory, "checkpoint").vocabulary == symbols
    assert model.layer.input_size == (width or len(symbols))
    assert (model.embedding is not None) == (width > 0)
    ids = torch.tensor([[symbols.index(c) for c in pair] for pair in ("tc", "ha", "et", " s")])
    x = ids if width else torch.nn.functional.one_hot(ids, len(symbols)).float()
    expected = cpp_logits(directory, directory / "best.safetensors", x, tmp_path)
    assert expected.shape == (4, 2, len(symbols)) and expected.abs().max() > 1e-3
    torch.testing.assert_close(model(x)[0], expected, rtol=1e-6, atol=1e-6)


def test_an_averaged_run_gives_the_average(tmp_path):
    """A checkpoint has the average beside the weights, under names of its own."""
    options = ("cell.hidden_size=6", "batch_size=3", "updates=4", "average=0.5")
    directory = train("lstm", tmp_path / "run", *options)
    stored = nru.load(directory / "checkpoint.safetensors")
    for name, tensor in nru.load_run(directory, "checkpoint").state_dict().items():
        assert torch.equal(tensor, stored[f"average.{name}"])
        assert not torch.equal(tensor, stored[name])


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


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    return train_small("nru", tmp_path_factory.mktemp("runs") / "small")


NRU_CELL = '[cell]\nname = "nru"\nhidden_size = 6\n'


@pytest.mark.parametrize(
    "config, reason",
    [
        ("", "it has no \\[cell\\] with a name"),
        ("cell = 3", "it has no \\[cell\\] with a name"),
        ("[cell]\nhidden_size = 6", "it has no \\[cell\\] with a name"),
        ("[cell", "Expected"),
        ('[cell]\nname = "nrx"', "cell cannot be 'nrx'; choose one of .*nru"),
        ('[cell]\nname = ["nru"]', "cell cannot be \\['nru'\\]; choose"),
        (NRU_CELL + "sizes = 3", "NRU: .*'sizes'"),
        (NRU_CELL + "memory_size = 3\nheads = 4", "must be a square"),
        (NRU_CELL + "memory_size = [3]", "memory_size must be a number"),
    ],
)
def test_configurations_that_are_wrong(tmp_path, config, reason):
    (tmp_path / "config.toml").write_text(config)
    with pytest.raises(ValueError, match=reason) as raised:
        nru.load_run(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path / 'config.toml'}: ")


def test_weights_that_do_not_fit(small_run, tmp_path):
    (tmp_path / "config.toml").write_text((small_run / "config.toml").read_text())
    path, good = tmp_path / "best.safetensors", nru.load(small_run / "best.safetensors")
    bias = good["layer.bias_l0"]
    changes = [
        ({"output.weight": None}, "it has no matrix output.weight"),
        ({"output.weight": torch.zeros(3)}, "it has no matrix output.weight"),
        ({"layer.bias_l0": torch.zeros(len(bias) + 1)}, "which do not fit the \\[cell\\]"),
        ({"layer.bias_l0": bias[None]}, "size mismatch for layer.bias_l0"),
        ({"output.bias": None}, "Missing key.*output.bias"),
        ({name: None for name in good if name.startswith("layer.")}, "its layer has 0 weights"),
        ({"embedding.weight": torch.zeros(3)}, "its embedding.weight is no matrix"),
    ]
    for change, reason in changes:
        changed = {name: t for name, t in {**good, **change}.items() if t is not None}
        nru.save(path, changed)
        with pytest.raises(ValueError, match=reason) as raised:
            nru.load_run(tmp_path)
        assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)
    with pytest.raises(ValueError, match="weights cannot be 'last'; choose best or checkpoint"):
        nru.load_run(small_run, "last")


def test_the_wheel_names_its_reader_of_toml():
    script = pathlib.Path(nru.__file__).parents[1] / "setup.py"
    if not script.exists():
        pytest.skip("this module was installed")
    assert "tomli; python_version < '3.11'" in script.read_text()


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
