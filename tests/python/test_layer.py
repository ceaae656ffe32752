"""Every class: torch's calling conventions, and one result whatever way it is asked for."""
import copy
import inspect
import io
import os
import pickle
import subprocess
import sys

import pytest
import torch
from torch.nn.utils import parametrize
from torch.nn.utils.rnn import pack_sequence

import nru
from conftest import HIDDEN, INPUT, as_tuple, make_layer, random_input, random_state

try:
    from torch.func import functional_call
except ImportError:  # before torch 2
    from torch.nn.utils.stateless import functional_call


def assert_same(a, b, tolerance=0.0):
    for left, right in zip(as_tuple(a), as_tuple(b), strict=True):
        torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


def test_the_issues_example():
    layer = nru.NRU(10, 80, memory_size=64, heads=4)
    output, (h, m) = layer(torch.randn(7, 5, 10))
    assert output.shape == (7, 5, 80) and h.shape == (1, 5, 80) and m.shape == (1, 5, 64)
    assert output.dtype == torch.float32
    # The heads have 2 * 4 + 4 * sqrt(4 * 64) = 72 outputs.
    expected = 80 * (10 + 80 + 64 + 1) + 72 * (80 + 64 + 1)
    assert sum(p.numel() for p in layer.parameters()) == expected


def test_classes_are_named_after_their_cells():
    assert nru.CLASSES["nru"] is nru.NRU and nru.CLASSES["lstm-chrono"] is nru.LSTMChrono
    for name, cls in nru.CLASSES.items():
        assert getattr(nru, cls.__name__) is cls and cls.cell == name
        assert cls.__name__ in nru.__all__


def test_signature_and_documentation(cell):
    cls = nru.CLASSES[cell]
    names = list(inspect.signature(cls).parameters)
    assert names[:3] == ["input_size", "hidden_size", "num_layers"]
    assert {"dropout", "batch_first", "backend", "device", "dtype"} < set(names)
    for name in set(names) - {"device", "dtype"}:
        assert f"\n    {name}: " in cls.__doc__
    assert f"nru.{cls.__name__}(" in cls.__doc__


def test_defaults_are_those_of_the_cpp_classes():
    assert nru.LSTM(3, 5).peephole is False
    assert nru.NRU(3, 5).memory_size == 64
    assert nru.EURNN(3, 5).complex is False
    with pytest.raises(TypeError, match="chrono_t_max"):
        nru.LSTMChrono(3, 5)


def test_a_multiplied_memory_starts_at_one(backend):
    layer = nru.NRU(3, 5, memory_size=8, heads=2, memory_update="multiply", backend=backend)
    x, h, m = torch.randn(4, 2, 3), torch.zeros(1, 2, 5), torch.ones(1, 2, 8)
    output, state = layer(x)
    same, same_state = layer(x, (h, m))
    assert torch.equal(output, same)
    assert_same(state, same_state)
    assert state[1].abs().max() > 0
    assert layer(x, (h, 0 * m))[1][1].abs().max() == 0


def test_shapes(cell):
    layer = make_layer(cell, num_layers=2)
    output, state = layer(random_input())
    assert output.shape == (5, 4, HIDDEN)
    assert isinstance(state, torch.Tensor if len(layer.state_names) == 1 else tuple)
    for part in as_tuple(state):
        assert part.shape[:2] == (2, 4)


def test_backends_agree(cell):
    fused, reference = make_layer(cell), make_layer(cell, backend="reference")
    x, state = random_input(), random_state(fused)
    for a, b in zip(fused(x, state), reference(x, state)):
        assert_same(a, b, 1e-12)
    fused.backend = "reference"
    assert torch.equal(fused(x, state)[0], reference(x, state)[0])


def test_limited_gradients_agree(cell):
    x = random_input()

    def gradients(**options):
        layer = make_layer(cell, **options)
        layer(x)[0].sum().backward()
        return [p.grad for p in layer.parameters()]

    limited = gradients(state_gradient_limit=0.01)
    assert_same(limited, gradients(state_gradient_limit=0.01, backend="reference"), 1e-9)
    assert any(not torch.equal(a, b) for a, b in zip(limited, gradients()))
    assert_same(gradients(state_gradient_limit=1e9), gradients())


def test_the_state_carries_on(cell):
    layer, x = make_layer(cell, num_layers=2), random_input()
    whole, last = layer(x)
    first, state = layer(x[:2])
    second, state = layer(x[2:], state)
    assert_same(torch.cat([first, second]), whole, 1e-13)
    assert_same(state, last, 1e-13)


def test_steps_make_the_sequence(cell):
    layer, x = make_layer(cell, num_layers=2), random_input()
    state, outputs = random_state(layer), []
    whole, last = layer(x, state)
    for x_t in x:
        output, state = layer.step(x_t, state)
        outputs.append(output)
    assert_same(torch.stack(outputs), whole, 1e-12)
    assert_same(state, last, 1e-12)


def test_states_of_every_step(cell, backend):
    layer, x = make_layer(cell, backend=backend), random_input()
    found = layer.states(x)
    assert tuple(found) == layer.state_names
    for steps in range(1, len(x) + 1):
        for name, part in zip(found, as_tuple(layer(x[:steps])[1])):
            assert_same(found[name][steps - 1], part[0], 1e-13)


def test_states_with_lengths(cell, backend):
    layer, x = make_layer(cell, backend=backend, num_layers=2), random_input()
    lengths = torch.tensor([5, 1, 3, 2])
    found, whole = layer.states(x, lengths=lengths), layer.states(x)
    for name, parts in found.items():
        for row, length in enumerate(lengths):
            assert_same(parts[:length, row], whole[name][:length, row], 1e-12)
            for held in parts[length:, row]:
                assert torch.equal(held, parts[length - 1, row])


def test_batch_first(cell):
    layer, x = make_layer(cell), random_input()
    swapped = make_layer(cell, batch_first=True)
    output, state = layer(x)
    other, other_state = swapped(x.transpose(0, 1))
    assert_same(other.transpose(0, 1), output)
    assert_same(other_state, state)


def test_without_a_batch(cell):
    for layer in (make_layer(cell, num_layers=2), make_layer(cell, num_layers=2, batch_first=True)):
        x, state = random_input(batch=1)[:, 0], random_state(layer, batch=1)
        flat = [p[:, 0] for p in as_tuple(state)]
        output, last = layer(x, flat)
        expected, expected_last = layer(x.unsqueeze(0 if layer.batch_first else 1), state)
        assert output.shape == (5, HIDDEN)
        assert_same(output, expected.reshape(5, HIDDEN))
        assert_same([p.unsqueeze(1) for p in as_tuple(last)], expected_last)


def test_lengths(cell, backend):
    layer, x = make_layer(cell, backend=backend), random_input()
    lengths = torch.tensor([5, 1, 3, 2])
    output, state = layer(x, lengths=lengths)
    for row, length in enumerate(lengths):
        alone, last = layer(x[:length, row : row + 1])
        assert_same(output[:length, row], alone[:, 0], 1e-12)
        assert output[length:, row].count_nonzero() == 0
        assert_same([p[:, row] for p in as_tuple(state)], [p[:, 0] for p in as_tuple(last)], 1e-12)


@pytest.mark.parametrize("batch_first", [False, True])
def test_packed_sequences(batch_first):
    ours = make_layer("lstm", batch_first=batch_first)
    theirs = ours.to_torch()
    rows = [random_input(length, 1, seed=length)[:, 0] for length in (2, 5, 3, 2)]
    packed, state = pack_sequence(rows, enforce_sorted=False), random_state(ours)
    (output, last), (expected, expected_last) = ours(packed, state), theirs(packed, state)
    assert torch.equal(output.batch_sizes, expected.batch_sizes)
    assert torch.equal(output.sorted_indices, expected.sorted_indices)
    assert_same(output.data, expected.data, 1e-12)
    assert_same(last, expected_last, 1e-12)
    sorted_rows = pack_sequence(sorted(rows, key=len, reverse=True))
    assert_same(ours(sorted_rows)[0].data, theirs(sorted_rows)[0].data, 1e-12)
    with pytest.raises(ValueError, match="lengths"):
        ours(packed, lengths=torch.tensor([2, 5, 3, 2]))


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_batch_of_no_rows_is_as_in_torch(batch_first, backend):
    ours = make_layer("lstm", num_layers=2, batch_first=batch_first, backend=backend)
    theirs = ours.to_torch()
    x = random_input(batch=0)
    x = x.transpose(0, 1) if batch_first else x
    (output, last), (expected, expected_last) = ours(x), theirs(x)
    assert output.shape == expected.shape
    assert [p.shape for p in last] == [p.shape for p in expected_last]
    output.sum().backward()
    assert all(p.grad.count_nonzero() == 0 for p in ours.parameters())
    lengths = torch.zeros(0, dtype=torch.long)
    assert ours(x, lengths=lengths)[0].shape == expected.shape


def test_what_torchs_layers_have():
    layer, x = make_layer("lstm"), random_input()
    layer.flatten_parameters()
    assert layer.bidirectional is False and layer.proj_size == 0
    state = random_state(layer)
    assert torch.equal(layer(x, hx=state)[0], layer(x, state)[0])
    with pytest.raises(ValueError, match="two names"):
        layer(x, state, hx=state)


def test_autocast(cell, backend):
    """A layer in autocast is the layer outside, whatever type autocast has given its input."""
    layer = make_layer(cell, num_layers=2, backend=backend).float()
    x = random_input().bfloat16()
    state = [p.bfloat16() for p in as_tuple(random_state(make_layer(cell, num_layers=2)))]
    wide_x, wide_state = x.float(), [p.float() for p in state]
    lengths = torch.tensor([5, 1, 3, 2])

    def results(x, state):
        output, last = layer(x, state, lengths)
        step, after = layer.step(x[0], state)
        states = layer.states(x, state, lengths).values()
        return [output, *as_tuple(last), step, *as_tuple(after), *states]

    def gradients(output, x):
        return torch.autograd.grad(output.square().sum(), [*layer.parameters(), x])

    expected = results(wide_x.requires_grad_(), wide_state)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = results(x.requires_grad_(), state)
        assert_same(layer.step(wide_x[0], wide_state)[0], layer.step(x[0], state)[0])
        with pytest.raises(ValueError, match="the input is Double"):
            layer(x.double())
    assert all(t.dtype == torch.float32 for t in found)
    assert_same(found, expected)
    *of_parameters, of_x = gradients(found[0], x)
    *expected_of_parameters, expected_of_x = gradients(expected[0], wide_x)
    assert_same(of_parameters, expected_of_parameters)
    assert torch.equal(of_x, expected_of_x.bfloat16())
    with pytest.raises(ValueError, match="the input is BFloat16"):
        layer(x)


@pytest.mark.skipif(not hasattr(torch, "compiler"), reason="this torch has no torch.compiler")
def test_compiled(cell):
    layer, x = make_layer(cell), random_input()
    compiled = torch.compile(lambda x: layer(2 * x)[0] + 1, backend="eager")
    assert_same(compiled(x), layer(2 * x)[0] + 1)


def test_threads_are_torchs():
    """As many as torch.set_num_threads() says; in a process of its own, with none so far."""
    script = """if True:
        import os, sys, torch, nru
        layer, x = nru.LSTM(3, 5), torch.randn(4, 40, 3)
        count = lambda: len(os.listdir("/proc/self/task"))
        for threads, more in ((1, 0), (3, 2)):
            torch.set_num_threads(threads)
            before = count()
            with torch.no_grad():
                layer(x)
            assert count() == before + more, (threads, before, count())
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


def test_dropout_between_layers_in_training_only():
    layer = make_layer("nru", num_layers=2, dropout=0.5)
    x = random_input()
    torch.manual_seed(0)
    one, other = layer(x)[0], layer(x)[0]
    assert not torch.equal(one, other)
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])
    assert torch.equal(layer(x)[0], make_layer("nru", num_layers=2)(x)[0])


def test_a_seed_is_a_network(cell):
    layer, other = make_layer(cell), make_layer(cell)
    other.reset_parameters(seed=6)
    assert any(not torch.equal(a, b) for a, b in zip(layer.parameters(), other.parameters()))
    other.reset_parameters(seed=5)
    assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), other.parameters()))
    for seed, equal in ((3, True), (4, False)):
        torch.manual_seed(3)
        one = nru.NRU(3, 5).weight_l0
        torch.manual_seed(seed)
        assert torch.equal(one, nru.NRU(3, 5).weight_l0) is equal


def test_double_and_float(cell):
    layer, x = make_layer(cell), random_input()
    expected = layer(x)[0]
    layer.float()
    output = layer(x.float())[0]
    assert output.dtype == torch.float32
    torch.testing.assert_close(output.double(), expected, rtol=1e-4, atol=1e-5)
    assert layer.double()(x)[0].dtype == torch.float64
    bfloat = layer.bfloat16()(x.bfloat16())[0]  # no kernels for it: the reference
    assert bfloat.dtype == torch.bfloat16


def test_copies(cell):
    layer, x = make_layer(cell, num_layers=2), random_input()
    expected = layer(x)[0]
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)  # torch 2.6 would refuse a whole module
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), loaded):
        assert type(twin) is type(layer) and repr(twin) == repr(layer)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.add_(1)
        assert torch.equal(twin(x)[0], expected)
        layer.reset_parameters(seed=5)


def test_state_dict(cell):
    layer, other, x = make_layer(cell), make_layer(cell), random_input()
    other.reset_parameters(seed=6)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file))
    assert torch.equal(layer(x)[0], other(x)[0])


def test_names_of_parameters():
    names = ("weight", "bias", "head_weight", "head_bias")
    assert list(nru.NRU(3, 5, 2).state_dict()) == [f"{s}_l{n}" for n in (0, 1) for s in names]
    assert list(nru.LSTM(3, 5).state_dict()) == ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0"]


def test_count_parameters(cell):
    layer = make_layer(cell, num_layers=2)
    options = {key: getattr(layer, key) for key in inspect.signature(type(layer)).parameters
               if key not in ("device", "dtype")}  # fmt: skip
    assert layer.count_parameters(**options) == sum(p.numel() for p in layer.parameters())


def test_repr():
    layer = nru.NRU(10, 80, heads=1, batch_first=True)
    assert repr(layer) == "NRU(10, 80, heads=1, batch_first=True)"


def differentiable(layer, x, state):
    """Output and final state as a function of tensors that gradcheck can move."""
    names, parameters = zip(*layer.named_parameters())
    parts = as_tuple(state)

    def call(x, *rest):
        state, values = rest[: len(parts)], dict(zip(names, rest[len(parts) :]))
        output, last = functional_call(layer, values, (x, state))
        return (output, *as_tuple(last))

    inputs = (x, *parts, *(p.detach().clone() for p in parameters))
    return call, tuple(t.requires_grad_() for t in inputs)


def test_gradcheck(cell, backend):
    layer = make_layer(cell, backend=backend)
    call, inputs = differentiable(layer, random_input(3, 2), random_state(layer, 2))
    assert torch.autograd.gradcheck(call, inputs, fast_mode=True)


def test_gradgradcheck(cell, backend):
    layer = make_layer(cell, backend=backend, num_layers=2)
    call, inputs = differentiable(layer, random_input(3, 2), random_state(layer, 2))
    assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True)


def test_no_gradient_is_kept_without_need():
    layer, x = make_layer("nru"), random_input()
    assert layer(x)[0].requires_grad
    with torch.no_grad():
        assert not layer(x)[0].requires_grad
    layer.requires_grad_(False)
    assert not layer(x)[0].requires_grad


def test_errors_are_value_errors():
    with pytest.raises(ValueError, match="^heads \\* memory_size must be a square, .* is 64$"):
        nru.NRU(3, 5, heads=4, memory_size=63)
    with pytest.raises(ValueError, match="hidden_size must be at least 1, got 0"):
        nru.NRU(3, 0)
    with pytest.raises(ValueError, match="num_layers must be at least 1, got 0"):
        nru.NRU(3, 5, 0)
    with pytest.raises(ValueError, match="dropout must be in"):
        nru.NRU(3, 5, dropout=1.5)
    with pytest.raises(ValueError, match="option 'combine' for cell nru cannot be 'meen'.*'mean'"):
        nru.NRU(3, 5, combine="meen")
    with pytest.raises(ValueError, match="backend cannot be 'fast'; choose fused or reference"):
        nru.NRU(3, 5, backend="fast")
    with pytest.raises(ValueError, match="option 'heads' for cell nru must be an integer, not 2.5"):
        nru.NRU(3, 5, heads=2.5)
    with pytest.raises(ValueError, match="bidirectional"):
        nru.NRU(3, 5, bidirectional=True)


def test_errors_of_calls():
    layer, x = make_layer("nru"), random_input()
    with pytest.raises(ValueError, match="must be \\[T, B, I\\] with I = 3, got \\[5, 4, 2\\]"):
        layer(x[..., :2])
    with pytest.raises(ValueError, match="the input is Float on cpu, .* are Double on cpu"):
        layer(x.float())
    with pytest.raises(ValueError, match="the state must have 2 parts, h .*, m .*; got a tensor"):
        layer(x, torch.zeros(1, 4, HIDDEN).double())
    with pytest.raises(ValueError, match="lengths must be in 1..5"):
        layer(x, lengths=torch.tensor([1, 2, 3, 6]))
    layer.weight_l0 = torch.nn.Parameter(torch.zeros(2, INPUT).double())
    with pytest.raises(ValueError, match="parameter weight_l0 must be \\[6, 13\\], got \\[2, 3\\]"):
        layer(x)


def test_parametrizations():
    class Half(torch.nn.Module):
        def forward(self, weight):
            return weight / 2

    layer, other, x = make_layer("nru"), make_layer("nru"), random_input()
    parametrize.register_parametrization(layer, "head_weight_l0", Half())
    with torch.no_grad():
        other.head_weight_l0 /= 2
    assert torch.equal(layer(x)[0], other(x)[0])


def test_tracing():
    """A traced module holds the operator, not the steps of one input."""
    layer, x = make_layer("nru").eval(), random_input()
    traced = torch.jit.trace(layer, (x,))
    other = random_input(7, 2, seed=9)
    assert torch.equal(traced(other)[0], layer(other)[0])
