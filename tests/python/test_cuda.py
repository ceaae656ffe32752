"""Layers on a GPU: the same results as on the CPU, eagerly and in torch's CUDA graphs."""
import pytest
import torch

from conftest import make_layer, random_input

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch has no CUDA device")


def gradients(layer, x):
    output, _ = layer(x)
    return torch.autograd.grad((output * output).sum(), list(layer.parameters()))


def test_equals_the_cpu(cell):
    layer, x = make_layer(cell).float(), random_input().float()
    expected = [layer(x)[0], *gradients(layer, x)]
    layer.cuda()
    found = [layer(x.cuda())[0], *gradients(layer, x.cuda())]
    for a, b in zip(found, expected, strict=True):
        assert a.is_cuda
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-4)


def test_float64_takes_the_reference(cell):
    layer, x = make_layer(cell), random_input()
    expected = layer(x)[0]
    torch.testing.assert_close(layer.cuda()(x.cuda())[0].cpu(), expected, rtol=1e-9, atol=1e-9)


def test_graph_replays(cell):
    layer, x = make_layer(cell).float().cuda(), random_input().float().cuda()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            gradients(layer, x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = gradients(layer, x)
    x.mul_(0.5)
    graph.replay()
    torch.cuda.synchronize()
    for a, b in zip(recorded, gradients(layer, x), strict=True):
        assert torch.equal(a, b)
