"""Checks of what users pass to layers: one line that says what is wrong and what would do."""
import collections.abc
import math

import torch
from torch import Tensor

# Options that every layer has, with their defaults.
COMMON = {
    "num_layers": 1,
    "dropout": 0.0,
    "batch_first": False,
    "backend": "fused",
    "state_gradient_limit": 0.0,
}
# Where the parameters are made, as in torch's own layers.
FACTORY = ("device", "dtype")
# Arguments of torch's layers that code may pass here too, with the only value that there is.
ONLY = {
    "bias": (True, "there are no layers without biases"),
    "bidirectional": (False, "layers run forward only; put a second one over x.flip(0)"),
    "proj_size": (0, "the output is not projected; put an nn.Linear behind the layer"),
}

# Bool before int, of which it is a kind.
_KINDS = {bool: "True or False", int: "an integer", float: "a finite number", str: "a string"}


def bind(cls, signature, args, kwargs):
    """All arguments of a constructor by name, checked, with the defaults of those not given."""
    try:
        given = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}: {error}") from None
    given.apply_defaults()
    values = given.arguments
    for name, (only, reason) in ONLY.items():
        if (value := values.pop(name)) != only:
            raise ValueError(f"{cls.__name__} has no {name}={value!r}: {reason}")
    kinds = {"input_size": int, "hidden_size": int}
    kinds.update((name, type(default)) for name, default in COMMON.items())
    for name in values:
        if name not in FACTORY:
            values[name] = _plain(name, values[name], kinds.get(name))
    return values


def _plain(name, value, kind):
    """A value as Python's own, also where it is numpy's or a tensor; of this kind if not None.

    What else is wrong with it the operators say, but to them go JSON's kinds of values only.
    """
    if getattr(value, "ndim", None) == 0:
        value = value.item()
    given = next((k for k in _KINDS if isinstance(value, k)), None)
    allowed = {None: tuple(_KINDS), float: (int, float)}.get(kind, (kind,))
    if given not in allowed or given is float and not math.isfinite(value):
        wanted = _KINDS.get(kind or given, "a number, a string, True or False")
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    return value


def checked_input(x, name="the input"):
    """x, which must be a tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    return x


def one_of(first, second, names):
    """What is given of two names of one argument."""
    if first is not None and second is not None:
        raise ValueError(f"{names} are two names of one argument; give one of them")
    return second if first is None else first


def lengths_tensor(lengths):
    """Lengths as a tensor, also where they are a list, a tuple or an array."""
    if lengths is None or isinstance(lengths, Tensor):
        return lengths
    try:
        # By way of a list, as torch takes neither all strides nor all integers of an array.
        given = lengths.tolist() if hasattr(lengths, "tolist") else lengths
        return torch.as_tensor(given, dtype=None if len(given) else torch.long)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"lengths must be integers, one per row of the batch, got {lengths!r}"
        ) from error


def parts_of(state):
    """What somebody gave as a state, as a list: of what a tuple or the like has, else of itself."""
    if isinstance(state, (Tensor, str, collections.abc.Mapping)):
        return [state]
    try:
        return list(state)
    except TypeError:
        return [state]


def describe(state):
    """What somebody gave as a state, in few words."""
    most = 4
    if isinstance(state, Tensor):
        return f"a tensor {list(state.shape)}"
    if isinstance(state, (tuple, list)):
        more = ["..."] if len(state) > most else []
        return f"({', '.join([*map(describe, state[:most]), *more])})"
    return f"a {type(state).__name__}"
