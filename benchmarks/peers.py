"""The networks of neuraloperator 2.0 and DeepXDE 1.15, built to our sizes, and their training steps beside ours.

Only the networks' modules are imported: the packages, tensorly, tltorch and opt_einsum must be on PYTHONPATH, what
their trainers, data sets and plots need does not.
"""

import importlib
import importlib.util
import math
import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import tino
from tino.models.fno import Fno, FnoBuilder
from tino.parts.spectral import SpectralConv

PASSED_OVER = ("neuralop", "neuralop.models", "neuralop.layers", "deepxde", "deepxde.utils")  # their __init__ files


Steps = dict[str, tuple[Callable[[], float | None], int]]  # a step, and how often it is called in a turn


@dataclass(frozen=True)
class Case:
    """Steps to be timed in turns, or that return their seconds, and the pairs whose times are compared."""

    name: str
    facts: dict[str, int]
    steps: Steps
    pairs: list[tuple[str, str]]


def load(module: str, name: str) -> Any:
    """A class from one of the peers' modules."""
    os.environ["DDE_BACKEND"] = "pytorch"
    importlib.import_module("torch._dynamo")  # first: it looks at what is in sys.modules
    for package in PASSED_OVER:
        if package in sys.modules or package.split(".")[0] != module.split(".")[0]:
            continue
        spec = importlib.util.find_spec(package)
        if spec is None or spec.submodule_search_locations is None:
            raise SystemExit(f"{package} is not on PYTHONPATH")
        sys.modules[package] = bare = types.ModuleType(package)
        bare.__spec__, bare.__path__ = spec, list(spec.submodule_search_locations)
    found = getattr(importlib.import_module(module), name)
    torch.set_default_device(None)  # DeepXDE makes it the GPU
    return found


def count(model: nn.Module) -> int:
    return sum(p.numel() * (2 if p.is_complex() else 1) for p in model.parameters())


def n_modes(kept: tuple[int, ...]) -> tuple[int, ...]:
    """Our kept modes in neuraloperator's count: both signs, on the last axis n // 2 + 1."""
    return (*kept[:-1], 2 * (kept[-1] - 1))


def spectral_layer(ours: SpectralConv, norm: str) -> nn.Module:
    """neuraloperator's Fourier layer with our weights."""
    channels = ours.weight.shape[1]
    make = load("neuralop.layers.spectral_convolution", "SpectralConv")
    theirs = make(channels, channels, n_modes(ours.kept), bias=False, fft_norm=norm).to(ours.weight.device)
    theirs.weight.tensor.data.copy_(_reordered(ours))
    return theirs


def fno(ours: Fno, same: bool) -> nn.Module:
    """neuraloperator's FNO of our sizes: ``same`` for the same function, or as it comes, without padding.

    As it comes it pads both sides or none, and without a channel MLP it applies the GELU of a layer twice.
    """
    first = ours.spectral[0]
    assert isinstance(first, SpectralConv)
    net = load("neuralop.models.fno", "FNO")(
        n_modes=n_modes(first.kept),
        in_channels=ours.border.channels,
        out_channels=ours.border.outputs,
        hidden_channels=ours.sizes["width"],
        n_layers=ours.sizes["layers"],
        lifting_channel_ratio=0,
        projection_channel_ratio=ours.sizes["projection"] / ours.sizes["width"],
        positional_embedding=None,
        use_channel_mlp=False,
        fno_skip="linear",
    )
    assert count(net) == count(ours), f"{count(net)} parameters there, {count(ours)} here"
    if same:
        net.domain_padding = EndPadding(ours.padding[0])
        blocks = net.fno_blocks

        def layer(x: Tensor, i: int = 0, output_shape: object = None) -> Tensor:
            x = blocks.convs[i](x) + blocks.fno_skips[i](x)
            return nn.functional.gelu(x) if i < ours.sizes["layers"] - 1 else x

        blocks.forward = layer
    return net.to(first.weight.device)


class EndPadding(nn.Module):
    """Zeros after the last time, as in our FNO."""

    def __init__(self, padding: int) -> None:
        super().__init__()
        self.padding = padding

    def pad(self, x: Tensor) -> Tensor:
        return nn.functional.pad(x, [0, 0] * (x.ndim - 3) + [0, self.padding])

    def unpad(self, x: Tensor) -> Tensor:
        return x[:, :, : -self.padding]


def copy_fno(ours: Any, net: Any) -> None:
    """Give neuraloperator's FNO our weights."""
    with torch.no_grad():
        maps = (ours.lift, ours.project[0], ours.project[2])
        for a, b in zip(maps, (*net.lifting.fcs, *net.projection.fcs), strict=True):
            b.weight.copy_(a.weight[..., None])
            b.bias.copy_(a.bias)
        for i in range(ours.sizes["layers"]):
            net.fno_blocks.fno_skips[i].conv.weight.copy_(ours.local[i].weight[..., None])
            conv = net.fno_blocks.convs[i]
            conv.bias.copy_(ours.local[i].bias.view_as(conv.bias))
            conv.weight.tensor.copy_(_reordered(ours.spectral[i]))


def run_fno(ours: Fno, net: nn.Module, f: Tensor) -> Tensor:
    """Their network behind our border: f (b, t, x) -> u (b, t, x)."""
    return ours.border.decode(net(ours.border.encode(f, None)))


def _reordered(ours: SpectralConv) -> Tensor:
    """Our weights as complex numbers, along all axes but the last from mode -k to k - 1."""
    weight = ours.complex_weight()
    return torch.fft.fftshift(weight, dim=tuple(range(2, weight.ndim - 1))) if weight.ndim > 3 else weight


def errors(device: str) -> dict[str, float]:
    """With the same weights: the largest difference of outputs over the largest output, Fourier layer and whole FNO.

    On even sizes: on odd ones neuraloperator 2.0 shifts the spectrum back by one mode too few. Theirs runs on the CPU:
    on a GPU the inverse FFT of a spectrum that is no real field's depends on the dimension ("theirs, GPU against CPU").
    """
    torch.backends.cudnn.allow_tf32 = False
    cases = [((1000,), (16,)), ((200, 128), (12, 12)), ((40, 32, 32), (12, 12, 12)), ((20, 16, 12, 10), (8, 8, 4, 4))]
    found = {}
    with torch.no_grad():
        for sizes, modes in cases:
            for norm in ("forward", "backward"):
                ours, x = SpectralConv(20, sizes, modes), torch.randn(2, 20, *sizes)
                name = f"Fourier layer {'x'.join(map(str, sizes))}, norm {norm}"
                theirs = spectral_layer(ours, norm)
                expected = theirs(x)
                found[name] = _difference(ours.to(device)(x.to(device)).cpu(), expected)
                if device != "cpu":
                    found[f"{name}: theirs, GPU against CPU"] = _difference(
                        theirs.to(device)(x.to(device)).cpu(), expected
                    )
        n_t, grid = 200 - FnoBuilder.padding, tino.Periodic(1.0, (128,))
        f = torch.randn(2, n_t, 128)
        model = tino.build("fno", tino.Dataset(f, f, tino.TimeGrid(0, 1, n_t), grid, grid))
        assert isinstance(model, Fno)
        net = fno(model, same=True)
        copy_fno(model, net)
        expected = run_fno(model, net, f)
        found["FNO 200x128"] = _difference(model.to(device)(f.to(device)).cpu(), expected)
    return found


def _difference(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max() / a.abs().max())


def deeponet(ours: Any) -> nn.Module:
    """DeepXDE's DeepONetCartesianProd or PODDeepONet with the layers of our DON or POD-DON on all sensors.

    They are called with (sensors, features of the points). The former has one number more, added to the field.
    """
    widths = [layer.out_features for layer in ours.branch.net if isinstance(layer, nn.Linear)]
    branch = [ours.mixer.weight[..., 0].numel(), ours.mixer.bias.numel(), *widths]
    device = ours.mixer.bias.device
    if hasattr(ours.basis, "net"):
        widths = [layer.out_features for layer in ours.basis.net if isinstance(layer, nn.Linear)]
        trunk = [ours.basis.features.shape[-1], *widths]
        make = load("deepxde.nn.pytorch.deeponet", "DeepONetCartesianProd")
        net, extra = make(branch, trunk, "gelu", "Glorot normal"), 1
    else:
        basis = ours.basis.modes.flatten(1).T.contiguous()  # on the device already, and no buffer there
        net, extra = load("deepxde.nn.pytorch.deeponet", "PODDeepONet")(basis, branch, "gelu", "Glorot normal"), 0
    assert count(net) == count(ours) + extra, f"{count(net)} parameters there, {count(ours)} here"
    return net.to(device)


def stepper(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
    """A step of torch's Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    return step


def noise(n_t: int, shape: tuple[int, ...], n: int) -> tino.Dataset:
    grid = tino.Periodic(1.0, shape) if shape else tino.Point()
    f = torch.randn(n, n_t, grid.size)
    return tino.Dataset(f, torch.randn_like(f), tino.TimeGrid(0, 1, n_t), grid, grid)


def fno_cases(device: str, quick: bool) -> Iterator[Case]:
    """A training step of our FNO, of theirs as the same function, and of theirs as it comes, by dimension."""
    gpu = device == "cuda"
    b, few = (200, 20) if gpu else (20, 4)
    cases = {"200x128": (200, (128,), b), "1000": (1000, (), b), "100x32x32": (100, (32, 32), few)}
    if gpu or quick:
        cases["50x16x16x16"] = (50, (16, 16, 16), 4)
    for name, (n_t, shape, b) in cases.items():
        data = noise(n_t // 8, tuple(n // 4 for n in shape), 2) if quick else noise(n_t, shape, b)
        ours = tino.build("fno", data).to(device)
        assert isinstance(ours, Fno)
        same, released = fno(ours, same=True), fno(ours, same=False)
        f, u = data.f.to(device), data.u.to(device)

        def theirs(net: nn.Module, tf32: bool, ours: Fno = ours, f: Tensor = f, u: Tensor = u) -> Tensor:
            torch.backends.cudnn.allow_tf32 = tf32  # as it comes its pointwise convolutions use it, ours do not
            return (run_fno(ours, net, f) - u).square().mean()

        calls = 5 if gpu else 1
        steps: Steps = {
            "tino": (stepper(ours, lambda m=ours, f=f, u=u: (m(f) - u).square().mean()), calls),
            "neuraloperator": (stepper(same, lambda m=same, loss=theirs: loss(m, False)), calls),
            "neuraloperator as it comes": (stepper(released, lambda m=released, loss=theirs: loss(m, True)), calls),
        }
        pairs = [("tino", "neuraloperator"), ("tino", "neuraloperator as it comes")]
        yield Case(name, {"batch": len(f), "parameters": count(ours)}, steps, pairs)


def deeponet_cases(device: str, quick: bool) -> Iterator[Case]:
    """A training step of DON and POD-DON and of DeepXDE's networks in a plain loop, on Burgers' sizes.

    "tino" does what DeepXDE does: all sensors, all times, the loss of the field. "tino fit" is the step of tino.fit:
    projected sensors, 32 times, for POD-DON the loss in its coefficients.
    """
    gpu = device == "cuda"
    n_t, x, rank, b = (20, 16, 4, 4) if quick else (200, 128, 128, 200 if gpu else 50)
    n, grid = b * math.ceil(2 * rank / b), tino.Periodic(1.0, (x,))
    inputs = torch.randn(n, n_t, x // 6) @ torch.randn(x // 6, x)
    outputs = (torch.randn(n, rank) @ torch.randn(rank, n_t * x)).view(n, n_t, x)
    data = tino.Dataset(inputs, outputs, tino.TimeGrid(0, 4, n_t), grid, grid)
    f, u = inputs[:b].to(device), outputs[:b].to(device)
    for name in ("don", "pod-don"):
        ours: Any = tino.build(name, data, project_sensors=False).to(device)
        net = deeponet(ours)
        z, target = ours.sensors(f), (u - (0 if name == "don" else ours.basis.mean)).flatten(1)
        given = (z.flatten(1), ours.basis.features.flatten(0, 1) if name == "don" else None)
        calls = 20 if gpu or name == "pod-don" else 2
        steps: Steps = {
            "tino": (stepper(ours, lambda m=ours, z=z: (field(m, z) - u).square().mean()), calls),
            "deepxde": (stepper(net, lambda m=net, z=given, y=target: (m(z) - y).square().mean()), calls),
        }
        for optimizer in ("adam", "soap") if importlib.util.find_spec("pytorch_optimizer") else ("adam",):
            epochs = {"adam": 200, "soap": 20}[optimizer] if gpu else {"don": 1, "pod-don": 10}[name]
            steps[f"tino fit, {optimizer}"] = (fit_step(name, data, b, device, optimizer, epochs), 1)
        pairs = [(name, "deepxde") for name in steps if name != "deepxde"]
        sizes = {"batch": b, "parameters": count(ours), "modes": ours.basis.sizes["modes"]}
        yield Case(name, sizes, steps, pairs)


def field(ours: Any, z: Tensor) -> Tensor:
    """What our network makes of scaled sensors."""
    return ours.basis.expand(ours._coefficients(z, None, None, None))


def fit_step(name: str, data: tino.Dataset, b: int, device: str, optimizer: str, epochs: int) -> Callable[[], float]:
    """Seconds of a step of tino.fit: a training of twice the epochs less one of the epochs, over the steps between."""
    model = tino.build(name, data)

    def seconds(epochs: int) -> float:
        config = tino.TrainConfig(epochs=epochs, batch_size=b, optimizer=optimizer, lr=1e-4, device=device)
        start = time.perf_counter()
        tino.fit(model, data, config, show_progress=False)
        return time.perf_counter() - start

    return lambda: (seconds(2 * epochs) - seconds(epochs)) / (epochs * (len(data) // b))
