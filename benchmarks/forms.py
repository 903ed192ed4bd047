"""Forms that are kept for their speed, each beside the plain one that computes the same numbers.

Forward and backward at the sizes of burgers-0.1 (200 samples, 200 times, 128 points) and, for the Fourier layer, of
problems with more axes. The plain forms are written here; results are compared before anything is timed.
"""

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from peers import Case, Steps
from torch import Tensor, nn

import tino
from tino.devices import products
from tino.parts.mixers import _DelayAt, _DelayFft, _signal, _spectrum
from tino.parts.spectral import SpectralConv
from tino.training.cuda import CapturedStep, CapturedUpdate
from tino.training.objective import RecordsObjective
from tino.training.state import Training
from tino.training.step import Step

WIDTH, TIMES = 256, 32  # of a delay; of the times of a step
GRIDS = {"200x128": (200, 128), "100x32x32": (100, 32, 32), "100x16x16": (100, 16, 16), "50x16x16x16": (50, 16, 16, 16)}
BATCHES = {"cpu": {2: 20, 3: 4, 4: 1}, "cuda": {2: 200, 3: 100, 4: 100}}  # of the Fourier layer, by axes
CHANNELS, MODES, PADDING = 20, 12, 9  # of the FNO with space


def cases(device: str, quick: bool) -> Iterator[Case]:
    sizes = {"n_t": 24, "resolution": 24} if quick else {}
    problem, b = tino.problem("burgers-0.1", **sizes), 12 if quick else 200
    train, _ = tino.dataset(problem, train=b, test=1, device=device, show_progress=False)
    yield from delays(train, device)
    yield from coefficients(train, device)
    yield from fourier(device, quick)
    if device == "cuda":
        yield from captures(train)


def pair(name: str, facts: dict[str, int], form: tuple[str, Any], plain: tuple[str, Any], calls: int) -> Case:
    steps: Steps = {title: (step, calls) for title, step in (form, plain)}
    return Case(name, facts, steps, [(form[0], plain[0])])


def same(a: Tensor, b: Tensor, limit: float = 1e-4) -> None:
    difference = float((a - b).detach().abs().max() / b.detach().abs().max())
    assert difference < limit, f"two forms differ by {difference:.1e}"


# -- the delay -----------------------------------------------------------------------------------------------


def plain_delay(z: Tensor, weight: Tensor) -> Tensor:
    """The same FFTs and products, left to autograd."""
    n = z.shape[1] + len(weight)
    return _signal(_spectrum(z, n) @ _spectrum(weight.flip(0).transpose(0, 1), n), n)[:, : z.shape[1]]


def delays(train: tino.Dataset, device: str) -> Iterator[Case]:
    """At all times, and on a CPU at chosen ones."""
    model: Any = tino.build("pod-tino", train)
    z, n_t = model.sensors(train.f).to(device), train.time.n
    times = torch.linspace(0, n_t - 1, min(TIMES, n_t)).long()
    facts = {"batch": len(z), "times": n_t, "sensors": z.shape[2], "width": WIDTH}

    def backward(delay: Callable[[Tensor, Tensor], Any], s: int) -> Callable[[], None]:
        weight = nn.Parameter(torch.randn(n_t, z.shape[2], WIDTH, device=device))
        gradient = torch.randn(len(z), s, WIDTH, device=device)
        return lambda: delay(z, weight).backward(gradient)

    def at_times(z: Tensor, weight: Tensor) -> Any:
        return _DelayAt.apply(z, weight, times.tolist(), 0)

    def indexed(z: Tensor, weight: Tensor) -> Any:
        return _DelayFft.apply(z, weight)[:, times]  # pyright: ignore

    trial = torch.randn(n_t, z.shape[2], WIDTH, device=device)
    same(_DelayFft.apply(z, trial), plain_delay(z, trial))  # pyright: ignore
    form, plain = backward(_DelayFft.apply, n_t), backward(plain_delay, n_t)
    calls = 20 if device == "cuda" else 1
    yield pair("delay at all times", facts, ("own backward", form), ("autograd", plain), calls)
    if device == "cpu":
        same(at_times(z, trial), indexed(z, trial))
        form, plain = backward(at_times, len(times)), backward(indexed, len(times))
        facts = {**facts, "times": len(times)}
        yield pair("delay at chosen times", facts, ("a product each", form), ("FFT, then chosen", plain), 1)


# -- the loss ------------------------------------------------------------------------------------------------


def coefficients(train: tino.Dataset, device: str) -> Iterator[Case]:
    """The loss of a model with a POD: of its coefficients, or of the fields they make."""
    for name in ("spod-trtino", "pod-don"):
        model: Any = tino.build(name, train).to(device)
        goal, u = RecordsObjective(model, train, torch.device(device)), train.u.to(device)
        samples, n_t = torch.arange(len(u), device=device), goal.n_t
        for count in dict.fromkeys((min(TIMES, n_t), n_t)):
            times = None if count == n_t else torch.linspace(0, n_t - 1, count).long().to(device)

            def of_fields(model: Any = model, goal: Any = goal, u: Tensor = u, times: Tensor | None = times) -> Tensor:
                rows = slice(None) if times is None else times
                field = model.basis.expand(model.respond(goal.inputs, None, times), rows)
                return (field - u[:, rows]).square().mean()

            def of_coefficients(goal: Any = goal, samples: Tensor = samples, times: Tensor | None = times) -> Tensor:
                return goal(samples, times)

            if times is None:
                same(goal.weight * of_coefficients() + goal.constant, of_fields(), 1e-3)
            steps = [lambda loss=loss: loss().backward() for loss in (of_coefficients, of_fields)]
            facts = {"batch": len(u), "times": count if n_t > 1 else train.time.n, "points": u.shape[2]}
            title = f"loss of {name}, {'all' if times is None else count} times"
            calls = 20 if device == "cuda" else 1
            yield pair(title, facts, ("coefficients", steps[0]), ("fields", steps[1]), calls)


# -- the Fourier layer ---------------------------------------------------------------------------------------


class PlainSpectral(nn.Module):
    """F⁻¹(R · F x) by whole FFTs, as FNOs are mostly written.

    The kept modes lie in corners of the spectrum, of low or high frequencies along each axis but the last; each corner
    is multiplied, and put into a spectrum of zeros.
    """

    def __init__(self, ours: SpectralConv) -> None:
        super().__init__()
        self.sizes = ours.sizes
        halves = [(slice(k // 2), slice(-(k // 2), None)) for k in ours.kept[:-1]]
        self.corners = [(..., *chosen, slice(ours.kept[-1])) for chosen in product(*halves)]
        weight = ours.complex_weight()
        self.weights = nn.ParameterList(nn.Parameter(weight[corner].clone()) for corner in self.corners)

    def forward(self, x: Tensor) -> Tensor:
        axes = tuple(range(2, x.ndim))
        spectrum = torch.fft.rfftn(x, dim=axes)
        whole = torch.zeros_like(spectrum)
        for corner, weight in zip(self.corners, self.weights, strict=True):
            whole[corner] = torch.einsum("bi...,io...->bo...", spectrum[corner], weight)
        return torch.fft.irfftn(whole, s=self.sizes, dim=axes)


def fourier(device: str, quick: bool) -> Iterator[Case]:
    """Beside whole FFTs; and, on grids with few points on the last two axes, these axes at once or one by one."""
    for name, (n_t, *space) in GRIDS.items():
        if quick:
            n_t, space = n_t // 10, [min(n, 6) for n in space]
        sizes = (n_t + PADDING, *space)
        ours = SpectralConv(CHANNELS, sizes, (MODES,) * len(sizes)).to(device)
        b = 2 if quick else BATCHES[device][len(sizes)]
        x = torch.randn(b, CHANNELS, *sizes, device=device, requires_grad=True)
        gradient = torch.randn_like(x)
        plain = PlainSpectral(ours).to(device)
        if device == "cpu":  # on a GPU the inverse FFT of a spectrum of no real field depends on the dimension
            same(ours(x), plain(x))

        def step(layer: Callable[[Tensor], Tensor], x: Tensor = x, gradient: Tensor = gradient) -> Callable[[], None]:
            def run() -> None:
                with products(tf32=True):  # on a GPU, as in the paper's tables
                    layer(x).backward(gradient)

            return run

        facts = {"batch": b, "points": math.prod(sizes), "modes": math.prod(ours.kept)}
        calls = 5 if device == "cuda" else 1
        title = f"Fourier layer {name}"
        yield pair(title, facts, ("few modes", step(ours)), ("whole FFTs", step(plain)), calls)
        if ours.joined_stages is not ours.stages:
            both, single = (lambda x, ours=ours, way=way: ours._apply_modes(x, way) for way in (True, False))
            same(both(x), single(x))
            yield pair(title, facts, ("last axes joined", step(both)), ("one by one", step(single)), calls)


# -- CUDA graphs ---------------------------------------------------------------------------------------------


def captures(train: tino.Dataset) -> Iterator[Case]:
    """A whole step of Adam, and only SOAP's update: replayed, and launched kernel by kernel."""
    device = torch.device("cuda")
    samples = torch.arange(len(train), device=device)
    for name, count in (("spod-trtino", TIMES), ("spod-trtino", 0), ("don", TIMES)):
        config = tino.TrainConfig(optimizer="adam", times=count, batch_size=len(train), device="cuda")
        times = torch.linspace(0, train.time.n - 1, count).long().to(device) if count else None
        steps: list[Callable[[], Any]] = []
        for captured in (True, False):
            run = Training(tino.build(name, train).to(device).train(), train, config, device)
            (step,) = run.make_steps(False)
            step = step if captured else Step(step.objective, run.optimizer, config)
            assert isinstance(step, CapturedStep) == captured
            for _ in range(5):
                step(samples, times)
            steps.append(lambda step=step, times=times: done(step(samples, times)))
        title = f"step of {name}, Adam, {count or 'all'} times"
        facts = {"batch": len(train), "times": count or train.time.n}
        yield pair(title, facts, ("captured", steps[0]), ("plain", steps[1]), 50)
    updates: list[Callable[[], Any]] = []
    for captured in (True, False):
        config = tino.TrainConfig(optimizer="soap", times=0, batch_size=len(train), lr=1e-6, device="cuda")
        run = Training(tino.build("spod-trtino", train).to(device).train(), train, config, device)
        (step,) = run.make_steps(False)
        step.gradients(samples, None)
        update: Any = CapturedUpdate(run.optimizer, run.parameters) if captured else run.optimizer.step
        for _ in range(420):  # beyond 400 it is a graph, but for every tenth
            update()
        updates.append(lambda update=update: done(update()))
    facts = {"batch": len(train)}
    yield pair("SOAP's update, spod-trtino", facts, ("captured", updates[0]), ("plain", updates[1]), 50)


def done(_: Any) -> None:
    """A step that reports no seconds of its own."""
