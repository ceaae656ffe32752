"""In place of torch's layers: what code for them passes, and what it is told where that is wrong."""
import inspect
import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune, spectral_norm, weight_norm
from torch.nn.utils.rnn import pack_sequence

import nru
from conftest import HIDDEN, INPUT, as_tuple, make_layer, random_input, random_state


class Half(nn.Module):
    def forward(self, weight):
        return weight / 2


def test_steps_limit_their_gradients(cell):
    layer, x = make_layer(cell, num_layers=2), random_input()

    def gradients(limit, step):
        layer.state_gradient_limit = limit
        start = [part.clone().requires_grad_() for part in as_tuple(random_state(layer))]
        state, loss = start, 0
        for x_t in x:
            y, state = layer.step(x_t, state) if step else layer(x_t[None], state)
            loss = loss + y.sum()
        return torch.autograd.grad(loss, start)

    found, expected, free = gradients(0.01, True), gradients(0.01, False), gradients(0.0, True)
    for one, other, unlimited in zip(found, expected, free):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
        assert not torch.allclose(one, unlimited)


def test_steps_without_gradients_take_the_faster_way():
    """It is the kernels' for a small NRU, and the same up to rounding."""
    for cell, same in (("nru", True), ("lstm", False)):
        layer, x = make_layer(cell, num_layers=2, hidden_size=33), random_input(1, 7)
        expected, last = layer.step(x[0])
        with torch.no_grad():
            (found, state), (output, _) = layer.step(x[0]), layer(x)
        assert torch.equal(found, output[0]) or not same
        assert torch.equal(found, expected) is not same
        for a, b in zip((found, *state), (expected, *last)):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-13)


def test_tangents_of_forward_mode(cell):
    """The kernels do not know them, so they must leave such tensors to the reference."""
    from torch.autograd import forward_ad

    layer, x = make_layer(cell, num_layers=2), random_input(3)
    call = lambda h: layer(x + h * x)[0]
    expected = torch.autograd.functional.jacobian(call, torch.zeros((), dtype=torch.float64))
    for trainable in (True, False):
        layer.requires_grad_(trainable)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, x)
            found = forward_ad.unpack_dual(layer(dual)[0]).tangent
            step = forward_ad.unpack_dual(layer.step(dual[0])[0]).tangent
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(step, expected[0], rtol=0, atol=1e-12)


def test_transforms_of_functions(cell):
    """Wrapped tensors are no memory for kernels, either."""
    transforms = pytest.importorskip("functorch")
    layer, x = make_layer(cell), random_input(3)
    lengths = torch.tensor([3, 1, 2, 3])
    calls = [
        lambda x: layer(x, lengths=lengths)[0].sum(),
        lambda x: layer.step(x[0])[0].sum(),
        lambda x: layer.states(x)["h" if "h" in layer.state_names else layer.state_names[0]].sum(),
    ]
    for call in calls[:2]:
        wanted = torch.autograd.functional.jacobian(call, x)
        torch.testing.assert_close(transforms.grad(call)(x), wanted, rtol=0, atol=1e-12)
    value, _ = transforms.jvp(calls[2], (x,), (x,))
    torch.testing.assert_close(value, calls[2](x), rtol=0, atol=1e-12)


def test_streams_follow_weight_norm():
    """Its hooks are torch's for forward() alone."""
    layer, x = make_layer("nru"), random_input()
    weight_norm(layer, "weight_l0")
    for _ in range(2):
        layer.step(x[0])[0].sum().backward()
    with torch.no_grad():
        layer.weight_l0_g.mul_(1.5)
        stepped, states = layer.step(x[0])[0], layer.states(x)["h"]
    torch.testing.assert_close(stepped, layer(x)[0][0], rtol=0, atol=1e-12)
    torch.testing.assert_close(states, layer(x)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("how", ["parametrized", "weight_norm", "pruned"])
def test_weights_that_are_no_parameters_are_not_drawn(how):
    layer = nru.LSTM(3, 5)
    if how == "parametrized":
        parametrize.register_parametrization(layer, "weight_hh_l0", Half())
    elif how == "weight_norm":
        weight_norm(layer, "weight_hh_l0")
    else:
        prune.l1_unstructured(layer, "weight_hh_l0", amount=0.5)
    before = layer.weight_ih_l0.clone()
    with pytest.raises(ValueError, match="^weight_hh_l0 is not a parameter .*; remove it first"):
        layer.reset_parameters(seed=1)
    assert torch.equal(layer.weight_ih_l0, before)


PAIRS = [
    (nn.LSTM, nru.LSTM, {}),
    (nn.GRU, nru.GRU, {"reset_after": True}),
    (nn.RNN, nru.RNNOrth, {"layer_norm": False, "activation": "tanh"}),
]


@pytest.mark.parametrize("theirs, ours, options", PAIRS)
@pytest.mark.parametrize("nested", [False, True])
def test_state_dicts_of_torchs_layers(theirs, ours, options, nested):
    source, target = theirs(INPUT, HIDDEN, 2), ours(INPUT, HIDDEN, 2, **options)
    whole = [nn.Sequential(nn.Identity(), layer) if nested else layer for layer in (source, target)]
    given = whole[0].state_dict()
    names = list(given)
    whole[1].load_state_dict(given)
    assert list(given) == names  # the caller's is as it was
    x = random_input().float()
    torch.testing.assert_close(target(x)[0], source(x)[0], rtol=0, atol=1e-6)
    whole[1].load_state_dict(whole[1].state_dict())


@pytest.mark.parametrize(
    "source, target, reason",
    [
        (nn.LSTM(3, 5), nru.LSTM(3, 5, peephole=True), "LSTM with peephole=False, this one has"),
        (nn.GRU(3, 5), nru.GRU(3, 5, reset_after=False), "GRU with reset_after=True, this one"),
        (nn.RNN(3, 5), nru.RNNOrth(3, 5, layer_norm=True), "RNNOrth with layer_norm=False, this"),
        (nn.LSTM(3, 5, bidirectional=True, bias=False), nru.LSTM(3, 5), "bidirectional=True"),
        (nn.LSTM(3, 5, proj_size=2), nru.LSTM(3, 5), "proj_size"),
    ],
)
def test_state_dicts_without_a_counterpart(source, target, reason):
    before = [p.clone() for p in target.parameters()]
    for strict in (True, False):
        with pytest.raises(RuntimeError, match=reason):
            nn.Sequential(target).load_state_dict(nn.Sequential(source).state_dict(), strict=strict)
    assert all(torch.equal(p, old) for p, old in zip(target.parameters(), before))


def test_state_dicts_of_models_with_other_layers():
    """An NRU where an LSTM stood: the rest of the model may be wanted."""
    source = nn.ModuleDict({"recurrent": nn.LSTM(3, 5), "output": nn.Linear(5, 2)})
    target = nn.ModuleDict({"recurrent": nru.NRU(3, 5), "output": nn.Linear(5, 2)})
    with pytest.raises(RuntimeError, match="Missing key"):
        target.load_state_dict(source.state_dict())
    result = target.load_state_dict(source.state_dict(), strict=False)
    assert "recurrent.weight_hh_l0" in result.unexpected_keys
    assert torch.equal(target["output"].weight, source["output"].weight)


def frozen(module):
    return {name for name, p in module.named_parameters() if not p.requires_grad}


@pytest.mark.parametrize("theirs, ours, options", PAIRS)
def test_what_is_frozen_stays_frozen(theirs, ours, options):
    module = theirs(INPUT, HIDDEN, 2)
    for name in ("weight_hh_l0", "bias_ih_l0", "bias_ih_l1", "bias_hh_l1"):
        module.get_parameter(name).requires_grad_(False)
    layer = ours.from_torch(module)
    last = {"bias_hn_l1"} if ours is nru.GRU else set()
    assert frozen(layer) == {"weight_hh_l0", "bias_ih_l1"} | last
    assert frozen(layer.to_torch()) == {"weight_hh_l0", "bias_ih_l1", "bias_hh_l1"}
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert frozen(ours.from_torch(module)) == frozen(layer)


def test_computed_weights_are_up_to_date():
    module = spectral_norm(nn.LSTM(3, 5), "weight_hh_l0").double().eval()
    layer = nru.LSTM.from_torch(module)
    assert layer.weight_ih_l0.dtype == torch.float64
    x = random_input()
    torch.testing.assert_close(layer(x)[0], module(x)[0], rtol=0, atol=1e-6)
    layer = spectral_norm(nru.LSTM(3, 5), "weight_hh_l0").eval()
    torch.testing.assert_close(layer.to_torch()(x.float())[0], layer(x.float())[0])


@pytest.mark.parametrize("how", ["parametrized", "weight_norm"])
def test_conversion_of_computed_weights(how):
    x = random_input()

    def compute(layer, name="weight_hh_l0"):
        if how == "parametrized":
            parametrize.register_parametrization(layer, name, Half())
        else:
            weight_norm(layer, name)
            with torch.no_grad():  # the attribute itself follows before the next forward pass
                layer.get_parameter(name + "_g").mul_(1.5)
        return layer

    module = compute(nn.LSTM(INPUT, HIDDEN, dtype=torch.float64))
    layer = nru.LSTM.from_torch(module)
    assert frozen(layer) == set()
    module(x)  # makes the weight of weight_norm; torch before 2.1 computes without parametrizations
    torch.testing.assert_close(layer.weight_hh_l0, module.weight_hh_l0)
    layer = compute(make_layer("lstm"))
    module = layer.to_torch()
    torch.testing.assert_close(layer(x)[0], module(x)[0], rtol=0, atol=1e-12)


def test_names_of_torchs_arguments(cell):
    layer, x = make_layer(cell, bias=True, bidirectional=False, proj_size=0), random_input()
    state = random_state(layer)
    assert torch.equal(layer(input=x, hx=state)[0], layer(x, state)[0])
    assert layer.bias is True and layer.bidirectional is False and layer.proj_size == 0
    with pytest.raises(ValueError, match="x and input are two names"):
        layer(x, input=x)
    for argument in ({"bias": False}, {"bidirectional": True}, {"proj_size": 2}):
        (name, value), = argument.items()
        with pytest.raises(ValueError, match=f"{type(layer).__name__} has no {name}={value}: "):
            make_layer(cell, **argument)


def test_all_weights():
    layer = nru.GRU(3, 5, 2)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hn")
    expected = [[getattr(layer, f"{name}_l{n}", None) for name in names] for n in (0, 1)]
    expected = [[p for p in row if p is not None] for row in expected]
    for found, wanted in zip(layer.all_weights, expected, strict=True):
        assert all(a is b for a, b in zip(found, wanted, strict=True))


def test_a_warning_where_dropout_does_nothing():
    with pytest.warns(UserWarning, match="dropout=0.5 acts between stacked layers") as found:
        nru.NRU(3, 5, dropout=0.5)
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nru.NRU(3, 5, 2, dropout=0.5)
        nru.NRU.count_parameters(3, 5, dropout=0.5)


def test_lengths_of_any_kind():
    numpy = pytest.importorskip("numpy")
    layer, x, lengths = make_layer("nru"), random_input(), [5, 1, 3, 2]
    expected = layer(x, lengths=torch.tensor(lengths))[0]
    array = numpy.array(lengths)
    backwards = numpy.array(lengths[::-1], dtype=numpy.uint32)[::-1]  # strides below zero
    for given in (lengths, tuple(lengths), array, backwards):
        assert torch.equal(layer(x, lengths=given)[0], expected)
        assert layer.states(x, lengths=given)["h"].shape == (5, 4, HIDDEN)
    for wrong in ("5132", [1, [2]], [1.5, 1, 1, 1], 3):
        with pytest.raises(ValueError, match="lengths must be"):
            layer(x, lengths=wrong)


def test_wrong_states_are_explained():
    layer, x = make_layer("nru", num_layers=2), random_input()
    h, m = random_state(layer)
    flat, packed = x[:, 0], pack_sequence([x[:, 0], x[:3, 0]])
    form = r"the state must have 2 parts, h \[2, B, 6\], m \[2, B, 4\]; got "
    for wrong, got in (((h,), r"\(a tensor \[2, 4, 6\]\)"), ((h, m[0]), ".*4, 4"), (h, "a tensor")):
        for call in (layer, layer.states, lambda x, state: layer.step(x[0], state)):
            with pytest.raises(ValueError, match=form + got):
                call(x, wrong)
    before = torch.get_rng_state()
    for wrong in (3, {"h": h, "m": m}, (h, None), [[0.0] * 1000]):
        with pytest.raises(TypeError, match=form):
            layer(x, wrong)
    assert torch.equal(torch.get_rng_state(), before)
    for given in (nn.ParameterList([h, m]), {"h": h, "m": m}.values()):
        assert torch.equal(layer(x, given)[0], layer(x, (h, m))[0])
    with pytest.raises(ValueError, match="state part h is Float on cpu, the input is Double"):
        layer(flat, (h[:, 0].float(), m[:, 0].float()))
    flat_form = r"h \[2, 6\], m \[2, 4\] for x \[T, I\]; got "
    for wrong in ((h, m), (h[:, 0], m[:, 0, 1:]), (h[:1, 0], m[:1, 0])):
        with pytest.raises(ValueError, match=flat_form):
            layer(flat, wrong)
    with pytest.raises(ValueError, match=r"h \[2, 2, 6\], m \[2, 2, 4\]; got "):
        layer(packed, (h[:, :1], m[:, :1]))
    with pytest.raises(ValueError, match=r"the state must have 1 part, h \[1, B, 6\]; got"):
        make_layer("gru")(x, (h, m))
    with pytest.raises(ValueError, match=r"must be \[T, I\] with I = 3, got \[5, 2\]"):
        layer(flat[:, :2])
    for call in (layer, layer.step, layer.states):
        with pytest.raises(TypeError, match="the input must be a tensor, got list"):
            call([1.0])


@pytest.mark.parametrize(
    "argument, reason",
    [
        ({"batch_first": 1}, "batch_first must be True or False, got 1"),
        ({"hidden_size": None}, "hidden_size must be an integer, got None"),
        ({"input_size": None}, "input_size must be an integer, got None"),
        ({"input_size": 2.5}, "input_size must be an integer, got 2.5"),
        ({"num_layers": True}, "num_layers must be an integer, got True"),
        ({"memory_size": None}, "memory_size must be a number, a string, True or False, got None"),
        ({"dropout": float("nan")}, "dropout must be a finite number, got nan"),
        ({"dropout": "0.5"}, "dropout must be a finite number, got '0.5'"),
        ({"state_gradient_limit": float("inf")}, "state_gradient_limit must be a finite number"),
        ({"write_limit": float("nan")}, "write_limit must be a finite number, got nan"),
        ({"backend": None}, "backend must be a string, got None"),
    ],
)
def test_wrong_arguments_of_constructors(argument, reason):
    arguments = {"input_size": 3, "hidden_size": 5, **argument}
    with pytest.raises(ValueError, match=reason):
        nru.NRU(**arguments)
    with pytest.raises(ValueError, match=reason):
        nru.NRU.count_parameters(**arguments)


def test_numbers_of_other_libraries():
    numpy = pytest.importorskip("numpy")
    layer = nru.NRU(numpy.int64(3), torch.tensor(5), dropout=numpy.float32(0), heads=numpy.int32(4))
    assert repr(layer) == repr(nru.NRU(3, 5))


def test_wrong_names_of_arguments(cell):
    name = nru.CLASSES[cell].__name__
    for arguments in ((), (3, 5, 1, 1)):
        with pytest.raises(TypeError, match=f"^{name}: "):
            nru.CLASSES[cell](*arguments)
    with pytest.raises(TypeError, match=f"^{name}: .*'nonsense'"):
        make_layer(cell, nonsense=1)


def test_subclasses_have_their_own_signature():
    class Mine(nru.NRU):
        def __init__(self, size, *, gain=1.0):
            super().__init__(size, 2 * size)
            self.bias = nn.Parameter(torch.tensor(gain))  # torch's layers let one do so, too

    class Plain(nru.NRU):
        pass

    assert list(inspect.signature(Mine).parameters) == ["size", "gain"]
    assert inspect.signature(Plain) == inspect.signature(nru.NRU)
    assert "memory_size" in inspect.signature(nru.NRU).parameters
    assert "self" not in inspect.signature(nru.NRU).parameters
    assert Plain.count_parameters(3, 6) == nru.NRU.count_parameters(3, 6)
    before = torch.get_rng_state()
    assert Mine.count_parameters(3, gain=2.0) == nru.NRU.count_parameters(3, 6) + 1
    assert torch.equal(torch.get_rng_state(), before)
    layer = Mine(3)
    assert layer(torch.zeros(2, 1, 3))[0].shape == (2, 1, 6) and repr(layer) == "Mine(3, 6)"


def test_scripting_says_what_to_do_instead():
    for module in (nru.NRU(3, 5), nn.Sequential(nru.NRU(3, 5))):
        with pytest.raises(TypeError, match="nru.NRU cannot be scripted; use torch.jit.trace"):
            torch.jit.script(module)
