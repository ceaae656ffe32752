"""The recurrent layers as torch modules: one class per row of the table of cells.

All of them are `Layer`, which has torch.nn.LSTM's calling conventions and holds the parameters;
what is computed is in the operators (torch.ops.nru), the same code as the C++ classes.
"""
import contextlib
import contextvars
import inspect
import json
import math
import re
import warnings

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from . import _operators, torch_layers
from .arguments import COMMON, FACTORY, ONLY
from .arguments import bind, checked_input, describe, lengths_tensor, one_of, parts_of

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
        like = {key: given.pop(key) for key in FACTORY}
        for key, value in given.items():
            setattr(self, key, value)
        self.bias = True  # as torch's have; of the layer, so that a subclass may have one of its own
        shapes = json.loads(torch.ops.nru.parameters(self._settings()))
        for name, shape in shapes:
            self.register_parameter(name, nn.Parameter(torch.empty(shape, **like)))
        self._tensor_names = [name for name, _ in shapes]
        if self.dropout > 0 and self.num_layers == 1 and _draws.get():
            # The third caller: this is called by the constructor of a class that we made.
            warnings.warn(
                f"dropout={self.dropout} acts between stacked layers, of which num_layers=1 has "
                "none: it does nothing", stacklevel=3,
            )  # fmt: skip
        if _draws.get():
            self.reset_parameters()

    @_uncompiled
    def forward(self, x=None, state=None, lengths=None, input=None, hx=None):
        """Runs the layer over a batch of sequences.

        x: [T, B, input_size], or [B, T, input_size] with batch_first, or [T, input_size] without a
            batch, or a PackedSequence.
        state: what an earlier call returned; None is zero. One tensor [num_layers, B, width] per
            part of the cell's state, as a tuple, or the tensor itself if the cell has one part.
        lengths: [B] integers in 1..T, for rows of unequal length: the output behind a row's length
            is zero, and its final state is the one at its length.

        input, hx: torch's names for x and state.

        Returns the output, shaped as x but with hidden_size features, and the final state. Under
        torch.autocast both have the parameters' type.
        """
        x, state = one_of(x, input, "x and input"), one_of(state, hx, "state and hx")
        lengths = lengths_tensor(lengths)
        if isinstance(x, PackedSequence):
            return self._forward_packed(x, state, lengths)
        if checked_input(x).dim() == 2:
            return self._forward_unbatched(x, state, lengths)
        return self._run(x, self._parts(state), lengths)

    @_uncompiled
    def step(self, x, state=None):
        """One step of a stream: x [B, input_size] to output [B, hidden_size] and the next state."""
        torch_layers.refresh(self)  # hooks, which torch calls before forward() alone
        output, *parts = torch.ops.nru.step(
            checked_input(x), self._parts(state), self._tensors(), self._settings(), self.training
        )
        return output, self._state(parts)

    @_uncompiled
    def states(self, x, state=None, lengths=None):
        """The top layer's state after every step, without gradients.

        A dict from the part's name ("h", "m") to [T, B, width], or [B, T, width] with batch_first.
        Behind a row's length it stays as it is there.
        """
        torch_layers.refresh(self)
        parts, lengths = self._parts(state), lengths_tensor(lengths)
        parts = torch.ops.nru.states(
            checked_input(x), parts, self._tensors(), lengths, self._settings()
        )
        return dict(zip(self.state_names, parts))

    def reset_parameters(self, seed=None):
        """Draws all parameters anew. A seed gives the same network on every machine and in C++.

        Without one the seed comes from torch's generator, so torch.manual_seed() governs as usual.
        """
        for name in self._tensor_names:
            if name not in self._parameters:
                raise ValueError(
                    f"{name} is not a parameter of this layer now (parametrization, weight_norm or "
                    "pruning); remove it first"
                )
        if seed is None:
            seed = torch.randint(2**63 - 1, (1,)).item()
        torch.ops.nru.initialise(self._tensors(), self._settings(), seed)

    def flatten_parameters(self):
        """Does nothing: it is what torch's layers need to be told after their weights moved."""

    @property
    def all_weights(self):
        """The parameters, in a list for each stacked layer."""
        tensors = self._tensors()
        each = len(tensors) // self.num_layers
        return [tensors[n : n + each] for n in range(0, len(tensors), each)]

    @classmethod
    def count_parameters(cls, *args, **kwargs):
        """The number of parameters of a layer with these arguments, without making it.

        Of a class with a constructor of its own it makes a layer, without drawing its parameters.
        """
        if cls.cell and cls.__init__ is not CLASSES[cls.cell].__init__:
            with undrawn(), torch.random.fork_rng(devices=[]):
                return sum(p.numel() for p in cls(*args, **kwargs).parameters())
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
        kind, options, renamed = torch_layers.counterpart(cls)
        if not isinstance(module, kind):
            wanted = f"{cls.__name__}.from_torch takes an nn.{kind.__name__}"
            raise TypeError(f"{wanted}, got {module!r}")
        if module.bidirectional or getattr(module, "proj_size", 0):
            raise ValueError("layers with bidirectional or proj_size have no counterpart here")
        torch_layers.refresh_for_copy(module)
        like = module.weight_ih_l0
        with undrawn():
            layer = cls(
                module.input_size, module.hidden_size, module.num_layers, dropout=module.dropout,
                batch_first=module.batch_first, device=like.device, dtype=like.dtype, **options,
                **{ours: getattr(module, theirs) for ours, theirs in renamed.items()}, **arguments,
            )  # fmt: skip
        torch_layers.copy_from_torch(layer, module)
        return layer.train(module.training)

    def to_torch(self):
        """Torch's own layer with these weights. Of its two biases the second becomes zero.

        What needs no gradient in the one needs none in the other, in both directions.
        """
        torch_layers.check_counterpart(self)
        torch_layers.refresh_for_copy(self)
        kind, _, renamed = torch_layers.counterpart(type(self))
        like = self._tensors()[0]
        module = kind(
            self.input_size, self.hidden_size, self.num_layers, dropout=self.dropout,
            batch_first=self.batch_first, device=like.device, dtype=like.dtype,
            **{theirs: getattr(self, ours) for ours, theirs in renamed.items()},
        )  # fmt: skip
        torch_layers.copy_to_torch(self, module)
        return module.train(self.training)

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        """Takes the state dict of torch's layer, too, where that is the same layer."""
        try:
            state_dict = torch_layers.as_ours(self, state_dict, prefix)
        except ValueError as error:
            *_, error_msgs = rest  # raised together by load_state_dict, also if it is not strict
            error_msgs.append(f"{prefix or 'the layer'}: weights of torch's own layer: {error}")
            return
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def __prepare_scriptable__(self):
        """What torch.jit.script calls first."""
        raise TypeError(
            f"nru.{type(self).__name__} cannot be scripted; use torch.jit.trace, or to_torch() where "
            "torch has the same layer"
        )

    def extra_repr(self):
        shown = []
        for name, parameter in self._signature.parameters.items():
            if name in FACTORY or name in ONLY:
                continue
            value = getattr(self, name)
            if parameter.default is parameter.empty or value != parameter.default:
                positional = parameter.kind is parameter.POSITIONAL_OR_KEYWORD
                required = positional and parameter.default is parameter.empty
                shown.append(repr(value) if required else f"{name}={value!r}")
        return ", ".join(shown)

    @classmethod
    def _bind(cls, *args, **kwargs):
        if not cls.cell:
            raise TypeError("Layer has no cell; use a subclass such as nru.NRU")
        return bind(cls, cls._signature, args, kwargs)

    @classmethod
    def _settings_of(cls, values):
        """What a layer is, in the form that the operators take (src/python/operators.cpp)."""
        options = [spec["key"] for spec in _operators.CELLS[cls.cell]["options"]]
        settings = {"cell": cls.cell, "options": {key: values[key] for key in options}}
        settings.update((key, values[key]) for key in ("input_size", *COMMON))
        return json.dumps(settings, default=lambda number: number.item())  # numpy's and torch's

    def _settings(self):
        return self._settings_of(self.__dict__)

    def _tensors(self):
        # Attributes, as a parametrization may have put other tensors in the parameters' places.
        return [getattr(self, name) for name in self._tensor_names]

    def _run(self, x, parts, lengths):
        output, *parts = torch.ops.nru.forward(
            x, parts, self._tensors(), lengths, self._settings(), self.training
        )
        return output, self._state(parts)

    def _parts(self, state, batch="B"):
        """The state as the list of tensors that the operators take; batch None: without a batch."""
        if state is None:
            return []
        parts, dimensions = parts_of(state), 2 if batch is None else 3
        if len(parts) != len(self.state_names) or not all(
            isinstance(p, Tensor) and p.dim() == dimensions for p in parts
        ):
            raise self._wrong_state(state, batch)
        return parts

    def _wrong_state(self, state, batch):
        """The error that says what a state must be; batch: B, None for none, "B" for any."""
        tensors = self._tensors()
        x = tensors[0].new_zeros(1, self.input_size)
        with torch.no_grad():  # a step without a state knows the widths
            _, *after = torch.ops.nru.step(x, [], tensors, self._settings(), False)
        batch = [] if batch is None else [batch]
        shapes = [[self.num_layers, *batch, p.shape[2]] for p in after]
        names = [f"{n} [{', '.join(map(str, s))}]" for n, s in zip(self.state_names, shapes)]
        number = f"{len(names)} part{'s' * (len(names) > 1)}"
        where = "" if batch else " for x [T, I]"
        wanted = f"the state must have {number}, {', '.join(names)}{where}"
        of_tensors = all(isinstance(part, Tensor) for part in parts_of(state))
        return (ValueError if of_tensors else TypeError)(f"{wanted}; got {describe(state)}")

    def _state(self, parts):
        """The list of tensors as the state that the caller sees."""
        return parts[0] if len(self.state_names) == 1 else tuple(parts)

    def _forward_unbatched(self, x, state, lengths):
        dimension = 0 if self.batch_first else 1
        parts = [p.unsqueeze(1) for p in self._parts(state, batch=None)]
        try:
            output, last = self._run(x.unsqueeze(dimension), parts, lengths)
        except ValueError as error:
            # The operators know x and the state with a batch of one row only.
            if x.shape[1] != self.input_size:
                wanted = f"the input must be [T, I] with I = {self.input_size}"
                raise ValueError(f"{wanted}, got {list(x.shape)}") from error
            if re.match(r"state part \S+ must be ", str(error)):
                raise self._wrong_state(state, None) from error
            raise
        return output.squeeze(dimension), self._state([p.squeeze(1) for p in self._parts(last)])

    def _forward_packed(self, x, state, lengths):
        if lengths is not None:
            raise ValueError("a PackedSequence has its lengths; leave out lengths=")
        # In the packed order (longest row first), so that the output's data lies as the input's.
        ordered = PackedSequence(x.data, x.batch_sizes)
        padded, lengths = pad_packed_sequence(ordered, self.batch_first)
        parts = self._parts(state)
        if any(p.shape[1] != len(lengths) for p in parts):
            raise self._wrong_state(state, len(lengths))
        if x.sorted_indices is not None:
            parts = [p.index_select(1, x.sorted_indices) for p in parts]
        output, state = self._run(padded, parts, lengths)
        data, sizes, _, _ = pack_padded_sequence(output, lengths, self.batch_first)
        parts = self._parts(state)
        if x.unsorted_indices is not None:
            parts = [p.index_select(1, x.unsorted_indices) for p in parts]
        return PackedSequence(data, sizes, x.sorted_indices, x.unsorted_indices), self._state(parts)


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
    bias: True; torch's layers have this and the next two, here there is one value for each
    bidirectional: False
    proj_size: 0
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
    for key, default in COMMON.items():
        if key != "num_layers":
            parameters.append(inspect.Parameter(key, keyword, default=default))
    for key, (only, _) in ONLY.items():
        parameters.append(inspect.Parameter(key, keyword, default=only))
    parameters += [inspect.Parameter(key, keyword, default=None) for key in FACTORY]
    return inspect.Signature(parameters)


def _constructor(signature):
    """A constructor that shows its arguments, and leaves subclasses to show their own."""

    def __init__(self, *args, **kwargs):
        Layer.__init__(self, *args, **kwargs)

    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = signature.replace(parameters=[this, *signature.parameters.values()])
    return __init__


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
    signature = _signature(row)
    body = {"__doc__": doc, "__module__": "nru", "cell": row["name"], "_signature": signature}
    return type(name, (Layer,), {**body, "__init__": _constructor(signature)})


CLASSES = {row["name"]: _make_class(row) for row in _operators.CELLS.values()}
