"""The network that `nru train` trains, and its run directories."""
import pathlib

from torch import nn

from . import safetensors
from .layer import CLASSES


class Model(nn.Module):
    """A recurrent layer and an output layer; its state dict has the names of a run's checkpoint."""

    def __init__(self, layer, output_size):
        super().__init__()
        self.layer = layer
        self.output = nn.Linear(layer.hidden_size, output_size)

    def forward(self, x, state=None, lengths=None):
        """x [T, B, input_size] to logits [T, B, output_size] and the final state."""
        hidden, state = self.layer(x, state, lengths)
        return self.output(hidden), state


def load_run(directory, weights="best"):
    """The model that `nru train` left in a run directory, with its best or its last weights.

    weights: "best" (best.safetensors) or "checkpoint" (checkpoint.safetensors). Of a run with `average`
    both are the averaged ones.
    """
    try:
        import tomllib
    except ImportError:  # before Python 3.11
        import tomli as tomllib

    directory = pathlib.Path(directory)
    with open(directory / "config.toml", "rb") as file:
        cell = tomllib.load(file)["cell"]
    options = {key: value for key, value in cell.items() if key != "name"}
    tensors = safetensors.load(directory / f"{weights}.safetensors")
    averaged = {name[8:]: t for name, t in tensors.items() if name.startswith("average.")}
    wanted = {
        name: t
        for name, t in (averaged or tensors).items()
        if name.startswith(("layer.", "output."))
    }
    make = CLASSES[cell["name"]]

    # A run does not say how wide its input is, but the number of parameters is linear in it.
    stored = sum(t.numel() for name, t in wanted.items() if name.startswith("layer."))
    one, two = (make.count_parameters(size, **options) for size in (1, 2))
    input_size = 1 + (stored - one) // (two - one)
    model = Model(make(input_size, **options), wanted["output.weight"].shape[0])
    model.load_state_dict(wanted)
    return model.eval()
