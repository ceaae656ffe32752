"""Loads the compiled operators, torch.ops.nru.*, and reads the table of cells from them."""
import json
import pathlib

import torch

_LIBRARY = pathlib.Path(__file__).with_name("libnru_operators.so")

try:
    torch.ops.load_library(str(_LIBRARY))
except OSError as error:
    raise ImportError(
        f"{_LIBRARY} does not load with torch {torch.__version__} of this Python: {error}; "
        "build the module against this torch with 'make python'"
    ) from error

_table = json.loads(torch.ops.nru.cells())
VERSION = _table["version"]
CELLS = {row["name"]: row for row in _table["cells"]}
