"""What the tests share: a small layer of every cell in the table."""
import inspect

import pytest
import torch

import nru

# Options for small layers, where the defaults are large or there is no default.
SMALL = {
    "nru": {"memory_size": 4, "heads": 4},
    "sru": {"stat_size": 5, "recur_size": 4},
}
INPUT, HIDDEN = 3, 6


def small_options(cell):
    """What a small layer of the cell is made with, besides its two sizes."""
    options = dict(SMALL.get(cell, {}))
    for name, parameter in inspect.signature(nru.CLASSES[cell]).parameters.items():
        if parameter.default is parameter.empty and name == "chrono_t_max":
            options[name] = 9
    return options


def make_layer(cell, **options):
    """A small layer of the cell, in float64, with the same weights in every test."""
    cls = nru.CLASSES[cell]
    options = {**small_options(cell), **options}
    layer = cls(INPUT, options.pop("hidden_size", HIDDEN), dtype=torch.float64, **options)
    layer.reset_parameters(seed=5)
    return layer


def random_input(steps=5, batch=4, seed=0, **kwargs):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(steps, batch, INPUT, generator=generator, dtype=torch.float64, **kwargs)


def as_tuple(state):
    return (state,) if isinstance(state, torch.Tensor) else tuple(state)


def random_state(layer, batch=4, seed=1):
    """A state of the form that the layer returns."""
    generator = torch.Generator().manual_seed(seed)
    x = random_input(1, batch)
    _, zero = layer(x.transpose(0, 1) if layer.batch_first else x)
    parts = [0.3 * torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in as_tuple(zero)]
    return parts[0] if isinstance(zero, torch.Tensor) else tuple(parts)


@pytest.fixture(params=sorted(nru.CLASSES))
def cell(request):
    """Every cell of the table, by name."""
    return request.param


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", ["fused", "reference"])
