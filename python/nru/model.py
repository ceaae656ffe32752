"""The network that `nru train` trains, and its run directories."""
import contextlib
import json
import pathlib

import torch
from torch import nn

from . import safetensors
from .layer import CLASSES, undrawn

_AVERAGE = "average."  # before the names of averaged weights in a checkpoint


class Model(nn.Module):
    """A recurrent layer and an output layer; its state dict has the names of a run's checkpoint.

    embedding: an nn.Embedding in front of the layer, for input that is ids of symbols, or None
    vocabulary: the symbols by id, a list of strings, where the run's task has one (char-lm)
    """

    def __init__(self, layer, output_size, embedding=None, vocabulary=None):
        super().__init__()
        self.embedding = embedding
        self.layer = layer
        self.output = nn.Linear(layer.hidden_size, output_size)
        self.vocabulary = vocabulary

    def forward(self, x, state=None, lengths=None):
        """x [T, B, input_size] to logits [T, B, output_size] and the final state.

        With an embedding x is ids of symbols, [T, B].
        """
        if self.embedding is not None:
            x = self.embedding(x)
        hidden, state = self.layer(x, state, lengths)
        return self.output(hidden), state


def load_run(directory, weights="best"):
    """The model that `nru train` left in a run directory, with its best or its last weights.

    weights: "best" (best.safetensors) or "checkpoint" (checkpoint.safetensors). Of a run with `average`
    both are the averaged ones.
    """
    if weights not in ("best", "checkpoint"):
        raise ValueError(f"weights cannot be {weights!r}; choose best or checkpoint")
    directory = pathlib.Path(directory)
    config, path = directory / "config.toml", directory / f"{weights}.safetensors"
    with _naming(config):
        make, options = _configured_cell(config)
    tensors = safetensors.load(path)
    averaged = {n[len(_AVERAGE) :]: t for n, t in tensors.items() if n.startswith(_AVERAGE)}
    wanted = {
        name: t
        for name, t in (averaged or tensors).items()
        if name.startswith(("embedding.", "layer.", "output."))
    }
    with _naming(path):
        model = _undrawn_model(make, options, wanted)
        model.load_state_dict(wanted)
    model.vocabulary = _vocabulary(path, directory)
    return model.eval()


@contextlib.contextmanager
def _naming(path):
    """Makes one ValueError that names a file of what is wrong with its contents."""
    try:
        yield
    except (ValueError, TypeError, RuntimeError) as error:  # the last is load_state_dict's
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from error


def _configured_cell(path):
    """The class and the options of the cell in a configuration."""
    try:
        import tomllib
    except ImportError:  # before Python 3.11
        import tomli as tomllib

    with open(path, "rb") as file:
        cell = tomllib.load(file).get("cell")
    if not isinstance(cell, dict) or "name" not in cell:
        raise ValueError("it has no [cell] with a name")
    options = {key: value for key, value in cell.items() if key != "name"}
    if cell["name"] not in list(CLASSES):  # of a list, as the name may be anything
        raise ValueError(f"cell cannot be {cell['name']!r}; choose one of {', '.join(CLASSES)}")
    make = CLASSES[cell["name"]]
    make.count_parameters(1, **options)  # raises what is wrong with the options
    return make, options


def _undrawn_model(make, options, tensors):
    """A model with the shapes of these tensors."""
    # A run does not say how wide its input is, but the number of parameters is linear in it.
    stored = sum(t.numel() for name, t in tensors.items() if name.startswith("layer."))
    one, two = (make.count_parameters(size, **options) for size in (1, 2))
    more, rest = divmod(stored - one, two - one)
    if more < 0 or rest:
        raise ValueError(f"its layer has {stored} weights, which do not fit the [cell] of config.toml")
    table, matrix = (tensors.get(f"{name}.weight") for name in ("embedding", "output"))
    if matrix is None or matrix.dim() != 2:
        raise ValueError("it has no matrix output.weight")
    if table is not None and table.dim() != 2:
        raise ValueError("its embedding.weight is no matrix")
    with undrawn(), torch.random.fork_rng(devices=[]):  # torch's own modules draw none the less
        embedding = None if table is None else nn.Embedding(*table.shape)
        return Model(make(1 + more, **options), matrix.shape[0], embedding)


def _vocabulary(path, directory):
    """The symbols by id, or None. Older checkpoints have none, but the best weights beside them do."""
    for file in (path, directory / "best.safetensors"):
        if file.exists() and "vocabulary" in (metadata := safetensors.metadata(file)):
            with _naming(file):
                return json.loads(metadata["vocabulary"])
    return None
