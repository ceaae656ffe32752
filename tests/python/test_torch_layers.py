"""Weights move between our layers and torch's own, and the two agree."""
import pytest
import torch
from torch import nn

import nru
from conftest import INPUT, as_tuple, make_layer, random_input, random_state

# Our cell, torch's layer, and the options under which they are the same.
PAIRS = {
    "lstm": (nn.LSTM, {"peephole": False}),
    "gru": (nn.GRU, {"reset_after": True}),
    "rnn-orth": (nn.RNN, {"layer_norm": False, "activation": "relu"}),
    "rnn-id": (nn.RNN, {"layer_norm": False, "activation": "tanh"}),
}


@pytest.fixture(params=[cell for cell in PAIRS if cell in nru.CLASSES])
def pair(request):
    """Name, torch's class, its arguments, and our options."""
    kind, options = PAIRS[request.param]
    arguments = {"nonlinearity": options["activation"]} if kind is nn.RNN else {}
    return request.param, kind, arguments, options


def assert_agree(ours, theirs):
    x, state = random_input(9), random_state(ours)
    (output, last), (expected, expected_last) = ours(x, state), theirs(x, state)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    for a, b in zip(as_tuple(last), as_tuple(expected_last), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bias", [True, False])
def test_from_torch(pair, backend, bias):
    cell, kind, arguments, _ = pair
    torch.manual_seed(1)
    theirs = kind(INPUT, 7, 2, bias=bias, dropout=0.1, **arguments).double().eval()
    ours = nru.CLASSES[cell].from_torch(theirs)
    ours.backend = backend
    assert ours.dropout == 0.1 and not ours.training
    assert_agree(ours, theirs)


def test_to_torch_and_back(pair):
    cell, kind, _, options = pair
    ours = make_layer(cell, num_layers=2, **options)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # biases that are not zero
    theirs = ours.to_torch()
    assert type(theirs) is kind
    assert_agree(ours, theirs)
    back = nru.CLASSES[cell].from_torch(theirs)
    for name, parameter in ours.named_parameters():
        assert torch.equal(parameter, back.get_parameter(name))


def test_chrono_to_torch_and_back():
    ours = make_layer("lstm-chrono", num_layers=2)
    theirs = ours.to_torch()
    assert type(theirs) is nn.LSTM
    assert_agree(ours, theirs)
    assert_agree(nru.LSTMChrono.from_torch(theirs, chrono_t_max=9), theirs)


def test_from_torch_draws_nothing(pair):
    cell, kind, arguments, _ = pair
    theirs = kind(INPUT, 7, **arguments)
    before = torch.get_rng_state()
    nru.CLASSES[cell].from_torch(theirs)
    assert torch.equal(torch.get_rng_state(), before)
    nru.LSTM(INPUT, 7)
    assert not torch.equal(torch.get_rng_state(), before)


def test_the_second_bias_is_zero():
    ours = make_layer("lstm")
    theirs = ours.to_torch()
    assert torch.equal(theirs.bias_ih_l0, ours.bias_ih_l0)
    assert theirs.bias_hh_l0.count_nonzero() == 0


def test_gradients_agree(pair):
    cell, kind, arguments, _ = pair
    torch.manual_seed(2)
    theirs = kind(INPUT, 7, **arguments).double()
    ours = nru.CLASSES[cell].from_torch(theirs)
    gradients = []
    for layer in (ours, theirs):
        x = random_input(9, requires_grad=True)
        output, state = layer(x, random_state(ours))
        (output.pow(2).sum() + sum(part.sin().sum() for part in as_tuple(state))).backward()
        tensors = (x, layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0)
        gradients.append([tensor.grad for tensor in tensors])
    for a, b in zip(*gradients):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


def test_what_has_no_counterpart_is_refused():
    with pytest.raises(TypeError, match="torch has no layer that is a NRU"):
        make_layer("nru").to_torch()
    with pytest.raises(ValueError, match="peephole=False, this one has peephole=True"):
        make_layer("lstm", peephole=True).to_torch()
    with pytest.raises(TypeError, match="takes an nn.LSTM"):
        nru.LSTM.from_torch(nn.GRU(3, 5))
    with pytest.raises(ValueError, match="bidirectional"):
        nru.LSTM.from_torch(nn.LSTM(3, 5, bidirectional=True))
    with pytest.raises(ValueError, match="proj_size"):
        nru.LSTM.from_torch(nn.LSTM(3, 5, proj_size=2))
