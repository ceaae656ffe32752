"""The drop-in example: one training script, with torch's LSTM and with each of our layers."""
import pathlib
import re

import pytest
import torch

import nru
from conftest import small_options

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "python.md"


def train(layer, updates=60):
    """The script of docs/python.md on a small task: is the running sum of the inputs positive?"""
    torch.manual_seed(0)
    output = torch.nn.Linear(layer.hidden_size, 2)
    optimizer = torch.optim.Adam([*layer.parameters(), *output.parameters()], lr=1e-2)
    losses = []
    for _ in range(updates):
        x = torch.randn(12, 32, layer.input_size)
        target = (x.sum(2).cumsum(0) > 0).long()
        hidden, _ = layer(x)
        loss = torch.nn.functional.cross_entropy(output(hidden).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_torchs_lstm_learns():
    losses = train(torch.nn.LSTM(2, 16))
    assert losses[-1] < 0.75 * losses[0]


def test_every_layer_learns(cell):
    layer = nru.CLASSES[cell](2, 16, **small_options(cell))
    layer.reset_parameters(seed=1)
    losses = train(layer)
    assert losses[-1] < 0.75 * losses[0]


@pytest.mark.parametrize("layer", ["nn.LSTM(", "nru.NRU("])
def test_the_guides_example_runs(layer):
    """The first Python block of the guide, as written and with the other layer."""
    block = re.search(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL).group(1)
    assert "nru.NRU(" in block and "nn.LSTM(" in block
    lines = [line for line in block.splitlines() if not ("layer = " in line and layer not in line)]
    scope = {}
    script = "\n".join(lines).replace("# layer = ", "layer = ")
    exec(re.sub(r"range\(\d+\)", "range(3)", script), scope)
    assert torch.isfinite(scope["loss"])
    assert type(scope["layer"]).__name__ in layer
