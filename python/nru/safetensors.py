"""Named tensors in files: safetensors, which C++ nru and the package of that name read too.

    8 bytes   N, little-endian: the size of the header
    N bytes   JSON: {"__metadata__": {...}, NAME: {"dtype", "shape", "data_offsets"}, ...}
    the rest  the tensors' bytes, little-endian, row-major, without holes
"""
import collections.abc
import contextlib
import json
import math
import os
import uuid
import zlib

import torch

_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_METADATA = "__metadata__"
# Checksums that C++ nru writes: of the data, and of the header with its own digits as zeros. They
# hold for one file only, so they are never handed out.
_DATA_CHECKSUM, _HEADER_CHECKSUM = "nru.crc32", "nru.header_crc32"


def _unique(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError("a name appears twice")
    return dict(pairs)


def _read(path):
    """Header entries, metadata and data of a file, which must be exactly as described above."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        entries, metadata, data = _parse(content)
    except RecursionError as error:
        raise ValueError(f"{path}: not a valid safetensors file: it is nested too deep") from error
    except ValueError as error:
        raise ValueError(f"{path}: not a valid safetensors file: {error}") from error
    hidden = (_DATA_CHECKSUM, _HEADER_CHECKSUM)
    return entries, {key: value for key, value in metadata.items() if key not in hidden}, data


def _parse(content):
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > len(content) - 8:
        raise ValueError("it is shorter than its header says")
    entries = json.loads(content[8 : 8 + size].decode("utf-8"), object_pairs_hook=_unique)
    data = memoryview(content)[8 + size :]
    if not isinstance(entries, dict):
        raise ValueError("its header is no object")
    metadata = entries.pop(_METADATA, {})
    if not _is_text(metadata):
        raise ValueError(f"{_METADATA} is no object of strings")
    for name, entry in entries.items():
        _check_entry(name, entry)
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        begin, after = entry["data_offsets"]
        if begin != end:
            raise ValueError(f"tensor {name!r} does not start where the one before it ends")
        end = after
    if end != len(data):
        raise ValueError(f"the tensors have {end} bytes, the file has {len(data)} for them")
    if _DATA_CHECKSUM in metadata and metadata[_DATA_CHECKSUM] != f"{zlib.crc32(data):08x}":
        raise ValueError("its checksum does not match: the file is damaged")
    return entries, metadata, data


def _check_entry(name, entry):
    """Raises a ValueError if a tensor's entry is not well-formed in itself."""
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise ValueError(f"tensor {name!r} has not dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError(f"tensor {name!r} has dtype {dtype!r}, which torch lacks")
    # torch, too, counts in 64 bits, and with a dimension of 0 nothing else bounds the others.
    if not _are_sizes(shape) or math.prod(n for n in shape if n) >= 2**63:
        raise ValueError(f"tensor {name!r} has shape {_short(shape)}, which are no sizes of a tensor")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise ValueError(f"tensor {name!r} has data_offsets {_short(offsets)}")
    width = torch.empty((), dtype=_DTYPES[dtype]).element_size()
    if offsets[1] - offsets[0] != width * math.prod(shape):
        raise ValueError(f"tensor {name!r} has not the bytes that its shape needs")


def _are_sizes(values):
    """Whether it is a list of integers from 0 on; in Python True is an integer, too."""
    return isinstance(values, list) and all(type(n) is int and n >= 0 for n in values)


def _is_text(metadata):
    return isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values())


def _short(value):
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def load(path):
    """The tensors of a file by name: a state dict."""
    entries, _, data = _read(path)
    tensors = {}
    for name, entry in entries.items():
        begin, end = entry["data_offsets"]
        dtype = _DTYPES[entry["dtype"]]
        # A copy: the file's bytes are read-only and need not be aligned.
        flat = torch.empty(math.prod(entry["shape"]), dtype=dtype)
        if end > begin:
            source = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.uint8)
            flat.view(torch.uint8).copy_(source)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def metadata(path):
    """The metadata of a file, a dict of strings."""
    return _read(path)[1]


def save(path, tensors, metadata=None):
    """Writes a state dict. The file appears whole or not at all."""
    _check_given(tensors, metadata)
    header = {_METADATA: dict(metadata)} if metadata else {}
    chunks, end = [], 0
    # By element size, so that each tensor is aligned.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    for name, tensor in ((name, tensors[name]) for name in order):
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        chunks.append(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [end, end + len(chunks[-1])],
        }
        end += len(chunks[-1])
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    path = os.path.abspath(path)
    unfinished = f"{path}.{uuid.uuid4().hex}"
    try:
        with open(unfinished, "xb") as file:  # and not tempfile, whose files are the owner's alone
            file.write(len(text).to_bytes(8, "little") + text)
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise
    _sync_folder(os.path.dirname(path))


def _check_given(tensors, metadata):
    """Raises an error if there are tensors or metadata that no file can hold."""
    if not isinstance(tensors, (collections.abc.Mapping, torch.nn.ParameterDict)):
        raise TypeError(f"tensors must be a dict, as state_dict() gives, got {_kind(tensors)}")
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"the names of tensors must be strings, got {name!r}")
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name!r} must be a tensor, got {_kind(tensor)}")
        stored = tensor.layout is torch.strided and not tensor.is_meta
        if tensor.dtype not in _NAMES or name == _METADATA or not stored:
            what = tensor.dtype if stored else f"{tensor.layout} on {tensor.device}"
            raise ValueError(f"tensor {name!r} ({what}) has no place in a safetensors file")
    if metadata is None:
        return
    if not isinstance(metadata, collections.abc.Mapping):
        raise TypeError(f"metadata must be a dict of strings, got {_kind(metadata)}")
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata must be strings by strings, got {key!r}: {value!r}")


def _kind(value):
    return f"a {type(value).__name__}"


def _sync_folder(folder):
    """Puts the names of files on the disk, after their contents."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
