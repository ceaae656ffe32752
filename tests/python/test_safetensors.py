"""Files of tensors: what is written is read back, and what is no such file is refused."""
import json
import os
import stat

import pytest
import torch

import nru

TENSORS = {
    "double": torch.randn(3, 2, dtype=torch.float64),
    "float": torch.randn(5),
    "half": torch.randn(2, 2).half(),
    "bfloat": torch.randn(3).bfloat16(),
    "long": torch.tensor([-1, 2**40]),
    "flags": torch.tensor([True, False, True]),
    "bytes": torch.tensor([0, 255], dtype=torch.uint8),
    "scalar": torch.tensor(2.5),
    "nothing": torch.empty(0, 3),
    "Gr\u00f6\u00dfe": torch.ones(1),
}


def write(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(begin=0, end=4, shape=(1,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def test_round_trip(tmp_path):
    path = tmp_path / "a.safetensors"
    nru.save(path, TENSORS, {"task": "copy"})
    found = nru.load(path)
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
        assert torch.equal(found[name], tensor)
    assert nru.metadata(path) == {"task": "copy"}
    found["float"].add_(1)  # its own memory
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]  # no temporary file is left


def test_views_and_parameters_are_written_as_they_look(tmp_path):
    matrix = torch.arange(6.0).reshape(2, 3)
    nru.save(tmp_path / "a", {"t": matrix.t(), "p": torch.nn.Parameter(matrix)[:, 1]})
    found = nru.load(tmp_path / "a")
    assert torch.equal(found["t"], matrix.t()) and torch.equal(found["p"], matrix[:, 1])


@pytest.mark.parametrize("umask, mode", [(0o022, 0o644), (0o077, 0o600)])
def test_files_may_be_read_by_whom_the_umask_lets(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        nru.save(tmp_path / "a", {"x": torch.ones(2)})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.safetensors"
    nru.save(path, {"x": torch.ones(2)})
    with pytest.raises(ValueError, match="'y'"):
        nru.save(path, {"x": torch.zeros(2), "y": torch.zeros(1, dtype=torch.complex64)})
    with pytest.raises(ValueError, match="__metadata__"):
        nru.save(path, {"__metadata__": torch.zeros(2)})
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        nru.save(tmp_path / "folder", {"x": torch.ones(2)})
    assert torch.equal(nru.load(path)["x"], torch.ones(2))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.safetensors", "folder"]


@pytest.mark.parametrize(
    "header, data, reason",
    [
        ({"x": entry()}, b"123", "the tensors have 4 bytes, the file has 3"),
        ({"x": entry()}, b"12345", "the tensors have 4 bytes, the file has 5"),
        ({"x": entry(shape=(2,))}, b"1234", "bytes that its shape needs"),
        ({"x": entry(shape=(-1,), end=-4)}, b"", "has shape \\[-1\\]"),
        ({"x": entry(shape=(1.0,))}, b"1234", "has shape \\[1.0\\]"),
        ({"x": entry(shape=(True,))}, b"1234", "has shape \\[True\\]"),
        ({"x": entry(shape=(2**63, 0), end=0)}, b"", "has shape"),
        ({"x": entry(shape=(2**40, 2**40, 0), end=0)}, b"", "has shape"),
        ({"x": entry(shape=(10**4000,))}, b"1234", "has shape .*\\.\\.\\.,"),
        ({"x": {**entry(), "shape": None}}, b"1234", "has shape None"),
        ({"x": entry(0.0, 4)}, b"1234", "has data_offsets \\[0.0, 4\\]"),
        ({"x": entry(False, 4)}, b"1234", "has data_offsets \\[False, 4\\]"),
        ({"x": {**entry(), "data_offsets": [4]}}, b"1234", "has data_offsets \\[4\\]"),
        ({"x": entry(dtype=["F32"])}, b"1234", "has dtype \\['F32'\\]"),
        ({"x": 1}, b"", "has not dtype, shape and data_offsets"),
        ({"__metadata__": ["a"]}, b"", "__metadata__ is no object of strings"),
        ({"__metadata__": {"a": 1}}, b"", "__metadata__ is no object of strings"),
        (b"[" * 100_000, b"", "nested too deep"),
        ({"x": entry(), "y": entry(6, 10)}, b"1234567890", "does not start where"),
        ({"x": entry(), "y": entry(2, 6)}, b"123456", "does not start where"),
        ({"x": entry(dtype="F99")}, b"1234", "F99"),
        ({"x": {"dtype": "F32"}}, b"1234", "data_offsets"),
        ([], b"", "not a valid"),
        (b'{"x": 1, "x": 2}', b"", "twice"),
        (b"{", b"", "not a valid"),
        (b'{"\xff": 1}', b"", "utf-8"),
    ],
)
def test_what_is_no_such_file(tmp_path, header, data, reason):
    path = write(tmp_path / "bad.safetensors", header, data)
    with pytest.raises(ValueError, match=reason) as raised:
        nru.load(path)
    assert str(path) in str(raised.value) and len(str(raised.value)) < 400


@pytest.mark.parametrize("content", [b"", b"1234567", b"\xff" * 8, b"\x05" + b"\0" * 7 + b"{}"])
def test_truncated(tmp_path, content):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(ValueError, match="shorter than its header says"):
        nru.load(tmp_path / "bad")


@pytest.mark.parametrize(
    "tensors, metadata, reason",
    [
        ({1: torch.ones(1)}, None, "the names of tensors must be strings, got 1"),
        ({"x": [1.0]}, None, "'x' must be a tensor, got a list"),
        (torch.ones(1), None, "tensors must be a dict, .* got a Tensor"),
        ({}, {"epoch": 3}, "metadata must be strings by strings, got 'epoch': 3"),
        ({}, {3: "epoch"}, "metadata must be strings by strings, got 3: 'epoch'"),
        ({}, ["epoch"], "metadata must be a dict of strings, got a list"),
    ],
)
def test_what_no_file_holds(tmp_path, tensors, metadata, reason):
    with pytest.raises(TypeError, match=reason):
        nru.save(tmp_path / "a", tensors, metadata)
    assert not list(tmp_path.iterdir())


def test_tensors_that_no_file_holds(tmp_path):
    for tensor in (torch.eye(2).to_sparse(), torch.ones(1, device="meta")):
        with pytest.raises(ValueError, match="'x' .* has no place in a safetensors file"):
            nru.save(tmp_path / "a", {"x": tensor})
