"""The recurrent layers as torch modules: one class per row of the table of cells.

All of them are `Layer`, which has torch.nn.LSTM's calling conventions and holds the parameters;
what is computed is in the operators (torch.ops.nru), the same code as the C++ classes.
"""
import contextlib
import contextvars
import inspect
import json
import math

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from . import _operators

# Torch's own layers that a cell can become and come from, the options under which it can, and
# options that torch has under another name.
_TORCH_LAYERS = {
    "rnn-orth": (nn.RNN, {"layer_norm": False}, {"activation": "nonlinearity"}),
    "rnn-id": (nn.RNN, {"layer_norm": False}, {"activation": "nonlinearity"}),
    "lstm": (nn.LSTM, {"peephole": False}, {}),
    "lstm-chrono": (nn.LSTM, {"peephole": False}, {}),
    "gru": (nn.GRU, {"reset_after": True}, {}),
}


# torch.compile leaves these functions as they are: it could not look into the operators. (Torch
# before 2.1 has no such mark.)
_uncompiled = getattr(getattr(torch, "compiler", None), "disable", lambda function: function)

_draws = contextvars.ContextVar("draws", default=True)


@contextlib.contextmanager
def undrawn():
    """Layers made inside draw nothing: the caller fills their parameters in."""
    before = _draws.set(False)
    try:
        yield
    finally:
        _draws.reset(before)


class Layer(nn.Module):
    """A recurrent layer; use one of the subclasses, such as nru.NRU or nru.LSTM."""

    cell: str = ""  # the cell's name in the table
    # What code written for torch's layers may ask of a layer.
    bidirectional = False
    proj_size = 0

    def __init__(self, *args, **kwargs):
        super().__init__()
        given = self._bind(*args, **kwargs)
        like = {key: given.pop(key) for key in _FACTORY}
        for key, value in given.items():
            setattr(self, key, value)
        shapes = json.loads(torch.ops.nru.parameters(self._settings()))
        for name, shape in shapes:
            self.register_parameter(name, nn.Parameter(torch.empty(shape, **like)))
        self._tensor_names = [name for name, _ in shapes]
        if _draws.get():
            self.reset_parameters()

    @_uncompiled
    def forward(self, x, state=None, lengths=None, *, hx=None):
        """Runs the layer over a batch of sequences.

        x: [T, B, input_size], or [B, T, input_size] with batch_first, or [T, input_size] without a
            batch, or a PackedSequence.
        state: what an earlier call returned; None is zero. One tensor [num_layers, B, width] per
            part of the cell's state, as a tuple, or the tensor itself if the cell has one part.
        lengths: [B] integers in 1..T, for rows of unequal length: the output behind a row's length
            is zero, and its final state is the one at its length.

        hx: torch's name for state.

        Returns the output, shaped as x but with hidden_size features, and the final state. Under
        torch.autocast both have the parameters' type.
        """
        if hx is not None:
            if state is not None:
                raise ValueError("state and hx are two names of one argument; give one of them")
            state = hx
        if isinstance(x, PackedSequence):
            return self._forward_packed(x, state, lengths)
        parts = self._parts(state)
        if unbatched := x.dim() == 2:
            x, parts = x.unsqueeze(self._batch_dimension()), [p.unsqueeze(1) for p in parts]
        output, *parts = torch.ops.nru.forward(
            x, parts, self._tensors(), lengths, self._settings(), self.training
        )
        if unbatched:
            output, parts = output.squeeze(self._batch_dimension()), [p.squeeze(1) for p in parts]
        return output, self._state(parts)

    @_uncompiled
    def step(self, x, state=None):
        """One step of a stream: x [B, input_size] to output [B, hidden_size] and the next state."""
        output, *parts = torch.ops.nru.step(
            x, self._parts(state), self._tensors(), self._settings(), self.training
        )
        return output, self._state(parts)

    @_uncompiled
    def states(self, x, state=None, lengths=None):
        """The top layer's state after every step, without gradients.

        A dict from the part's name ("h", "m") to [T, B, width], or [B, T, width] with batch_first.
        Behind a row's length it stays as it is there.
        """
        parts = torch.ops.nru.states(
            x, self._parts(state), self._tensors(), lengths, self._settings()
        )
        return dict(zip(self.state_names, parts))

    def reset_parameters(self, seed=None):
        """Draws all parameters anew. A seed gives the same network on every machine and in C++.

        Without one the seed comes from torch's generator, so torch.manual_seed() governs as usual.
        """
        if seed is None:
            seed = torch.randint(2**63 - 1, (1,)).item()
        torch.ops.nru.initialise(self._tensors(), self._settings(), seed)

    def flatten_parameters(self):
        """Does nothing: it is what torch's layers need to be told after their weights moved."""

    @classmethod
    def count_parameters(cls, *args, **kwargs):
        """The number of parameters of a layer with these arguments, without making it."""
        shapes = json.loads(torch.ops.nru.parameters(cls._settings_of(cls._bind(*args, **kwargs))))
        return sum(math.prod(shape) for _, shape in shapes)

    @property
    def state_names(self):
        """The names of the state's parts in their order, such as ("h", "m")."""
        return tuple(_operators.CELLS[self.cell]["state"])

    @classmethod
    def from_torch(cls, module, **arguments):
        """This layer with the weights of torch's own: nn.LSTM for nru.LSTM, nn.GRU for nru.GRU.

        arguments: of this layer, where torch's has none such: chrono_t_max, backend.
        """
        kind, options, renamed = cls._torch_layer()
        if not isinstance(module, kind):
            wanted = f"{cls.__name__}.from_torch takes an nn.{kind.__name__}"
            raise TypeError(f"{wanted}, got {module!r}")
        if module.bidirectional or getattr(module, "proj_size", 0):
            raise ValueError("layers with bidirectional or proj_size have no counterpart here")
        like = module.weight_ih_l0
        with undrawn():
            layer = cls(
                module.input_size, module.hidden_size, module.num_layers, dropout=module.dropout,
                batch_first=module.batch_first, device=like.device, dtype=like.dtype, **options,
                **{ours: getattr(module, theirs) for ours, theirs in renamed.items()}, **arguments,
            )  # fmt: skip
        with torch.no_grad():
            for n in range(layer.num_layers):
                layer._copy_from(module, n)
        return layer.train(module.training)

    def to_torch(self):
        """Torch's own layer with these weights. Of its two biases the second becomes zero."""
        kind, options, renamed = self._torch_layer()
        for key, value in options.items():
            if getattr(self, key) != value:
                wanted = f"nn.{kind.__name__} is a {type(self).__name__} with {key}={value!r}"
                raise ValueError(f"{wanted}, this one has {key}={getattr(self, key)!r}")
        like = next(self.parameters())
        module = kind(
            self.input_size, self.hidden_size, self.num_layers, dropout=self.dropout,
            batch_first=self.batch_first, device=like.device, dtype=like.dtype,
            **{theirs: getattr(self, ours) for ours, theirs in renamed.items()},
        )  # fmt: skip
        with torch.no_grad():
            for n in range(self.num_layers):
                self._copy_to(module, n)
        return module.train(self.training)

    # Torch has two biases, of which mostly the sum matters and is all that we have. Only in the
    # GRU's last gate does the second act alone, behind the reset gate: our bias_hn.

    def _copy_from(self, module, n):
        ours, theirs = self._of_layer(self, n), self._of_layer(module, n)
        ours["weight_ih"].copy_(theirs["weight_ih"])
        ours["weight_hh"].copy_(theirs["weight_hh"])
        zero = torch.zeros_like(ours["bias_ih"])  # for modules with bias=False
        first, second = theirs.get("bias_ih", zero), theirs.get("bias_hh", zero)
        ours["bias_ih"].copy_(first + second)
        if "bias_hn" in ours:
            last = slice(2 * self.hidden_size, None)
            ours["bias_ih"][last] = first[last]
            ours["bias_hn"].copy_(second[last])

    def _copy_to(self, module, n):
        ours, theirs = self._of_layer(self, n), self._of_layer(module, n)
        for name in ("weight_ih", "weight_hh", "bias_ih"):
            theirs[name].copy_(ours[name])
        theirs["bias_hh"].zero_()
        if "bias_hn" in ours:
            theirs["bias_hh"][2 * self.hidden_size :] = ours["bias_hn"]

    @staticmethod
    def _of_layer(module, n):
        """The parameters of one stacked layer by their names without the suffix."""
        named, suffix = module.named_parameters(), f"_l{n}"
        return {name[: -len(suffix)]: p for name, p in named if name.endswith(suffix)}

    def extra_repr(self):
        shown = []
        for name, parameter in self.__signature__.parameters.items():
            if name in _FACTORY:
                continue
            value = getattr(self, name)
            if parameter.default is parameter.empty or value != parameter.default:
                positional = parameter.kind is parameter.POSITIONAL_OR_KEYWORD
                required = positional and parameter.default is parameter.empty
                shown.append(repr(value) if required else f"{name}={value!r}")
        return ", ".join(shown)

    @classmethod
    def _torch_layer(cls):
        if cls.cell not in _TORCH_LAYERS:
            raise TypeError(f"torch has no layer that is a {cls.__name__}")
        return _TORCH_LAYERS[cls.cell]

    @classmethod
    def _bind(cls, *args, **kwargs):
        """All arguments of the constructor by name, with the defaults of those not given."""
        if not cls.cell:
            raise TypeError("Layer has no cell; use a subclass such as nru.NRU")
        given = cls.__signature__.bind(*args, **kwargs)
        given.apply_defaults()
        return given.arguments

    @classmethod
    def _settings_of(cls, values):
        """What a layer is, in the form that the operators take (src/python/operators.cpp)."""
        options = [spec["key"] for spec in _operators.CELLS[cls.cell]["options"]]
        settings = {"cell": cls.cell, "options": {key: values[key] for key in options}}
        settings.update((key, values[key]) for key in ("input_size", *_COMMON))
        return json.dumps(settings, default=lambda number: number.item())  # numpy's and torch's

    def _settings(self):
        return self._settings_of(self.__dict__)

    def _tensors(self):
        # Attributes, as a parametrization may have put other tensors in the parameters' places.
        return [getattr(self, name) for name in self._tensor_names]

    def _batch_dimension(self):
        return 0 if self.batch_first else 1

    def _parts(self, state):
        """The state as the list of tensors that the operators take."""
        if state is None:
            return []
        return [state] if isinstance(state, Tensor) else list(state)

    def _state(self, parts):
        """The list of tensors as the state that the caller sees."""
        return parts[0] if len(self.state_names) == 1 else tuple(parts)

    def _forward_packed(self, x, state, lengths):
        if lengths is not None:
            raise ValueError("a PackedSequence has its lengths; leave out lengths=")
        # In the packed order (longest row first), so that the output's data lies as the input's.
        ordered = PackedSequence(x.data, x.batch_sizes)
        padded, lengths = pad_packed_sequence(ordered, self.batch_first)
        parts = self._parts(state)
        if x.sorted_indices is not None:
            parts = [p.index_select(1, x.sorted_indices) for p in parts]
        output, state = self.forward(padded, parts or None, lengths)
        data, sizes, _, _ = pack_padded_sequence(output, lengths, self.batch_first)
        parts = self._parts(state)
        if x.unsorted_indices is not None:
            parts = [p.index_select(1, x.unsorted_indices) for p in parts]
        return PackedSequence(data, sizes, x.sorted_indices, x.unsorted_indices), self._state(parts)


# Options that every layer has, with their defaults.
_COMMON = {
    "num_layers": 1,
    "dropout": 0.0,
    "batch_first": False,
    "backend": "fused",
    "state_gradient_limit": 0.0,
}
# Where the parameters are made, as in torch's own layers.
_FACTORY = ("device", "dtype")

_DOC = """{summary}.

    layer = nru.{name}({example})
    output, {state} = layer(x)           # x [T, B, input_size], output [T, B, hidden_size]
    output, {state} = layer(x, {state})  # the state carries on

Arguments:
    input_size: features of x
{options}
    num_layers: layers on top of each other
    dropout: between stacked layers, in training
    batch_first: x is [B, T, input_size] instead of [T, B, input_size]
    backend: "fused" (the kernels, where there are any for the device and type) or "reference" (the
        same equations in torch's operations)
    state_gradient_limit: in backward passes, the largest norm of what a step sends back to a row's
        state before it; 0 for no limit
    device, dtype: of the parameters
"""


def _class_name(cell):
    """nru -> NRU, rnn-orth -> RNNOrth."""
    first, *rest = cell.split("-")
    return first.upper() + "".join(word.capitalize() for word in rest)


def _signature(row):
    """(input_size, hidden_size, num_layers=1, *, ...) with the cell's own options and defaults."""
    word, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, word) for name in ("input_size", "hidden_size")]
    parameters.append(inspect.Parameter("num_layers", word, default=1))
    for spec in row["options"]:
        if spec["key"] == "hidden_size":
            continue
        # The chrono initialisation is for a known longest dependency; no default can know it.
        required = row["chrono"] and spec["key"] == "chrono_t_max"
        default = inspect.Parameter.empty if required else spec["default"]
        parameters.append(inspect.Parameter(spec["key"], keyword, default=default))
    for key, default in _COMMON.items():
        if key != "num_layers":
            parameters.append(inspect.Parameter(key, keyword, default=default))
    parameters += [inspect.Parameter(key, keyword, default=None) for key in _FACTORY]
    return inspect.Signature(parameters)


def _make_class(row):
    lines = []
    for spec in row["options"]:
        choices = f" ({', '.join(spec['choices'])})" if spec["choices"] else ""
        lines.append(f"    {spec['key']}: {spec['help']}{choices}")
    name = _class_name(row["name"])
    example = "10, 80" + (", chrono_t_max=100" if row["chrono"] else "")
    state = f"({', '.join(row['state'])})" if len(row["state"]) > 1 else row["state"][0]
    doc = _DOC.format(
        summary=row["summary"], name=name, example=example, state=state, options="\n".join(lines)
    )
    body = {"__doc__": doc, "__module__": "nru", "__signature__": _signature(row)}
    return type(name, (Layer,), {**body, "cell": row["name"]})


CLASSES = {row["name"]: _make_class(row) for row in _operators.CELLS.values()}
