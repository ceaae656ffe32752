"""Weights from torch's own layers and to them: as modules, and as state dicts.

Torch has two biases, of which mostly the sum matters and is all that we have. Only in the GRU's
last gate does the second act alone, behind the reset gate: our bias_hn.
"""
import torch
from torch import nn
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

# Torch's layers that a cell can become and come from, the options under which it can, and options
# that torch has under another name.
_TORCH_LAYERS = {
    "rnn-orth": (nn.RNN, {"layer_norm": False}, {"activation": "nonlinearity"}),
    "rnn-id": (nn.RNN, {"layer_norm": False}, {"activation": "nonlinearity"}),
    "lstm": (nn.LSTM, {"peephole": False}, {}),
    "lstm-chrono": (nn.LSTM, {"peephole": False}, {}),
    "gru": (nn.GRU, {"reset_after": True}, {}),
}


def counterpart(cls):
    """Torch's class, options and renamed options of a class of layers."""
    if cls.cell not in _TORCH_LAYERS:
        raise TypeError(f"torch has no layer that is a {cls.__name__}")
    return _TORCH_LAYERS[cls.cell]


def check_counterpart(layer):
    """Raises an error that names the options which torch's layers need and this one has not."""
    kind, options, _ = counterpart(type(layer))
    for key, value in options.items():
        if getattr(layer, key) != value:
            wanted = f"nn.{kind.__name__} is a {type(layer).__name__} with {key}={value!r}"
            raise ValueError(f"{wanted}, this one has {key}={getattr(layer, key)!r}")


def copy_from_torch(layer, module):
    """Puts the weights of torch's module, which are up to date, into a layer of its sizes."""
    for n in range(layer.num_layers):
        ours, theirs = _tensors(layer, n), _tensors(module, n)
        zero = torch.zeros_like(ours["bias_ih"])  # for modules with bias=False
        first, second = theirs.get("bias_ih", zero), theirs.get("bias_hh", zero)
        sources = {name: theirs[name] for name in ("weight_ih", "weight_hh")}
        sources.update(_joined(first, second, layer.hidden_size, "bias_hn" in ours))
        needs = {name: source.requires_grad for name, source in sources.items()}
        needs["bias_ih"] = first.requires_grad or second.requires_grad  # in inference mode, too
        needs["bias_hn"] = second.requires_grad
        for name, source in sources.items():
            _put(source, ours[name])
            ours[name].requires_grad_(needs[name])


def copy_to_torch(layer, module):
    """The other way round. Torch's second bias becomes zero."""
    for n in range(layer.num_layers):
        ours, theirs = _tensors(layer, n), _tensors(module, n)
        for name in ("weight_ih", "weight_hh", "bias_ih"):
            _put(ours[name], theirs[name])
            theirs[name].requires_grad_(ours[name].requires_grad)
        alone = ours.get("bias_hn", ours["bias_ih"])
        with torch.no_grad():
            theirs["bias_hh"].zero_()
            if "bias_hn" in ours:
                theirs["bias_hh"][2 * layer.hidden_size :] = alone
        theirs["bias_hh"].requires_grad_(alone.requires_grad)


def refresh(module):
    """Computes anew what hooks compute before each forward pass: it may be out of date."""
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, (WeightNorm, SpectralNorm, BasePruningMethod)):
            hook(module, ())


def refresh_for_copy(module):
    """The same with gradients on, so that what is computed says whether its source needs one."""
    with torch.enable_grad():
        refresh(module)


def _tensors(module, n):
    """The tensors of one stacked layer by their names without the suffix.

    Attributes, as weight norm or a parametrization may have put them in the parameters' places.
    """
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "bias_hn")
    found = {name: getattr(module, f"{name}_l{n}", None) for name in names}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _put(source, target):
    with torch.no_grad():
        target.copy_(source)


def _joined(first, second, hidden, has_hn):
    """Our biases, made of torch's two."""
    if not has_hn:
        return {"bias_ih": first + second}
    gates = first[: 2 * hidden] + second[: 2 * hidden]
    return {"bias_ih": torch.cat([gates, first[2 * hidden :]]), "bias_hn": second[2 * hidden :]}


def as_ours(layer, state_dict, prefix):
    """A state dict with our biases where it has those of torch's layer at this prefix.

    Where torch has no such layer the names alone say that these are other weights, and
    load_state_dict passes over them if it is not strict.
    """
    if type(layer).cell not in _TORCH_LAYERS:
        return state_dict
    if prefix + "weight_ih_l0_reverse" in state_dict:
        raise ValueError("they are of a layer with bidirectional=True, which is not here")
    if prefix + "weight_hr_l0" in state_dict:
        raise ValueError("they are of a layer with proj_size, which is not here")
    if not any(name.startswith(prefix + "bias_hh_l") for name in state_dict):
        return state_dict
    check_counterpart(layer)
    converted = dict(state_dict)
    for n in range(layer.num_layers):
        names = [f"{prefix}{name}_l{n}" for name in ("bias_ih", "bias_hh", "bias_hn")]
        if names[0] not in converted or names[1] not in converted:
            continue  # a missing or an unexpected name, which load_state_dict reports
        first, second = converted[names[0]], converted[names[1]]
        if not (isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)):
            continue  # as is this
        del converted[names[1]]
        if first.shape != second.shape:
            raise ValueError(f"{names[0]} and {names[1]} differ in their shapes")
        has_hn = hasattr(layer, f"bias_hn_l{n}")
        for name, bias in _joined(first, second, layer.hidden_size, has_hn).items():
            converted[f"{prefix}{name}_l{n}"] = bias
    return converted
