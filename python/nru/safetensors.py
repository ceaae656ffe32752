"""Named tensors in files: safetensors, which C++ nru and the package of that name read too.

    8 bytes   N, little-endian: the size of the header
    N bytes   JSON: {"__metadata__": {...}, NAME: {"dtype", "shape", "data_offsets"}, ...}
    the rest  the tensors' bytes, little-endian, row-major, without holes
"""
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
        size = int.from_bytes(content[:8], "little")
        if len(content) < 8 or size > len(content) - 8:
            raise ValueError("it is shorter than its header says")
        entries = json.loads(content[8 : 8 + size].decode("utf-8"), object_pairs_hook=_unique)
        data = memoryview(content)[8 + size :]
        metadata = entries.pop(_METADATA, {})
        end = 0
        for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
            begin, after = entry["data_offsets"]
            if entry["dtype"] not in _DTYPES:
                raise ValueError(f"tensor {name!r} has dtype {entry['dtype']!r}, which torch lacks")
            width = torch.empty((), dtype=_DTYPES[entry["dtype"]]).element_size()
            shape = entry["shape"]
            if min(shape, default=0) < 0 or after - begin != width * math.prod(shape):
                raise ValueError(f"tensor {name!r} has not the bytes that its shape needs")
            if begin != end:
                raise ValueError(f"tensor {name!r} does not start where the one before it ends")
            end = after
        if end != len(data):
            raise ValueError(f"the tensors have {end} bytes, the file has {len(data)} for them")
        if _DATA_CHECKSUM in metadata and metadata[_DATA_CHECKSUM] != f"{zlib.crc32(data):08x}":
            raise ValueError("its checksum does not match: the file is damaged")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: not a valid safetensors file: {error}") from error
    hidden = (_DATA_CHECKSUM, _HEADER_CHECKSUM)
    return entries, {key: value for key, value in metadata.items() if key not in hidden}, data


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
    header = {_METADATA: dict(metadata)} if metadata else {}
    chunks, end = [], 0
    # By element size, so that each tensor is aligned.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    for name, tensor in ((name, tensors[name]) for name in order):
        if tensor.dtype not in _NAMES or name == _METADATA:
            raise ValueError(f"tensor {name!r} ({tensor.dtype}) has no place in a safetensors file")
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


def _sync_folder(folder):
    """Puts the names of files on the disk, after their contents."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
