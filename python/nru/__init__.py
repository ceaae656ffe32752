"""The Non-saturating Recurrent Unit and the recurrent networks it is compared with, for torch.

    layer = nru.NRU(10, 80, memory_size=64, heads=4)
    output, (h, m) = layer(x)  # x [T, B, 10], output [T, B, 80]

There is one class per cell, all with torch.nn.LSTM's calling conventions; nru.CLASSES maps the
names of the command line ("nru", "lstm-chrono") to them.
"""
from ._operators import VERSION as __version__
from .layer import CLASSES, Layer
from .model import Model, load_run
from .safetensors import load, metadata, save

globals().update({cls.__name__: cls for cls in CLASSES.values()})

__all__ = ["CLASSES", "Layer", "Model", "load", "load_run", "metadata", "save"]
__all__ += [cls.__name__ for cls in CLASSES.values()]
