"""On a GPU: captured steps are the plain ones. Skipped where there is none."""

import copy
import dataclasses

import pytest
import torch

import tino
from tino.training.cuda import CapturedStep, CapturedUpdate
from tino.training.state import Training

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.filterwarnings("ignore::tino.TinoWarning"),  # very coarse grids
]

CONFIG = tino.TrainConfig(steps=40, batch_size=12, times=0, optimizer="adam", device="cuda")


@pytest.fixture
def train_of(small_data, tiny_data):
    """name -> training set; coarser where the networks on the grid take long on a CPU."""
    return lambda name: (tiny_data if name == "advection-diffusion-3d" else small_data)(name)[0]


def trained(
    train: tino.Dataset, model: str | torch.nn.Module, config: tino.TrainConfig, captured: bool, monkeypatch
) -> torch.Tensor:
    with monkeypatch.context() as patched:
        if not captured:
            patched.setattr("tino.training.cuda.WARM", 10**9)
            patched.setattr("tino.training.cuda.SETTLED", 10**9)
        patched.setattr("torch.backends.cudnn.deterministic", True)  # Adam would make much of a different rounding
        made = tino.build(model, train) if isinstance(model, str) else copy.deepcopy(model)
        tino.fit(made, train, config, show_progress=False)
    return torch.cat([p.detach().flatten().cpu() for p in made.parameters()])


@pytest.mark.parametrize("model", ["spod-trtino", "don", "fno", "unet"])
@pytest.mark.parametrize("problem", ["burgers-0.1", "heat-triangle", "advection-diffusion-3d"])
def test_a_captured_step_is_the_plain_one(problem, model, train_of, monkeypatch):
    train = train_of(problem)
    plain, captured = (trained(train, model, CONFIG, way, monkeypatch) for way in (False, True))
    assert torch.allclose(plain, captured, rtol=0, atol=1e-4 * float(plain.abs().max()))


@pytest.mark.parametrize(
    ("problem", "model"),
    [
        ("burgers-0.1", "flow-tino"),  # on the grid
        ("navier-stokes", "flow-tino"),
        ("heat-triangle", "flow-tino"),  # in coefficients
        ("duffing", "flow-tino"),  # in delays
        ("burgers-0.1", "fno-step"),
        ("heat-triangle", "fno-step"),
    ],
)
def test_unrolled_steps_are_captured_and_are_the_plain_ones(problem, model, train_of, monkeypatch):
    """One graph for single steps, and one for the lesson of eight."""
    train = train_of(problem)
    config = dataclasses.replace(CONFIG, steps=80, times=4, precision="float64")  # the last lesson may be a tenth
    captures = []
    capture = CapturedStep._capture
    monkeypatch.setattr(CapturedStep, "_capture", lambda self, *a: (captures.append(self), capture(self, *a))[1])
    plain, captured = (trained(train, model, config, way, monkeypatch) for way in (False, True))
    assert len(set(captures)) == 2
    assert torch.allclose(plain, captured, rtol=0, atol=1e-6 * float(plain.abs().max()))


@pytest.mark.parametrize("model", ["fno", "unet"])
@pytest.mark.parametrize("problem", ["burgers-0.1", "heat-triangle", "advection-diffusion-3d"])
def test_a_network_on_the_grid_is_the_same_function_there(problem, model, train_of):
    train = train_of(problem)
    made = tino.build(model, train).double()
    f, ic = train.f[:2].double(), None if train.ic is None else train.ic[:2].double()
    ends = []
    for place in ("cpu", "cuda"):
        made.to(place)
        u = made(f.to(place), None if ic is None else ic.to(place))
        gradients = torch.autograd.grad(u.square().mean(), list(made.parameters()))
        ends.append([u.detach().cpu(), *[g.cpu() for g in gradients]])
    (here, *slopes_here), (there, *slopes_there) = ends
    assert torch.allclose(here, there, rtol=0, atol=1e-9 * float(here.abs().max()))
    for here, there in zip(slopes_here, slopes_there, strict=True):  # a bias before a normalisation has none
        assert torch.allclose(here, there, rtol=0, atol=1e-9 * max(float(here.abs().max()), 1e-3))


def test_unet_learns_in_bfloat16(train_of):
    train = train_of("advection-diffusion-3d")
    made = tino.build("unet", train)
    before = tino.evaluate(made, train).mse_mean
    tino.fit(made, train, dataclasses.replace(CONFIG, precision="bfloat16"), show_progress=False)
    assert tino.evaluate(made, train).mse_mean < before


@pytest.mark.parametrize("model", ["don", "unet"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")
def test_a_compiled_step_is_the_plain_one_captured_too(model, train_of, monkeypatch):
    """With a smaller batch at the end of an epoch."""
    train = train_of("burgers-0.1")
    config = dataclasses.replace(CONFIG, batch_size=10)
    plain = trained(train, model, config, False, monkeypatch)
    compiled = trained(train, model, dataclasses.replace(config, compile=True), True, monkeypatch)
    assert torch.allclose(plain, compiled, rtol=0, atol=1e-3 * float(plain.abs().max()))


@pytest.mark.parametrize("decay", [0.0, 1.0])
def test_a_captured_soap_step_is_the_plain_one(decay, small_data, monkeypatch):
    """From the same state: one more step by the library, and one by the graph."""
    train, _ = small_data("burgers-0.1")
    config = dataclasses.replace(CONFIG, optimizer="soap", lr=1e-3, weight_decay=decay, steps=1000)
    ends = []
    for settled in (10**9, 405):  # never, and after some steps
        monkeypatch.setattr("tino.training.cuda.SETTLED", settled)
        made = tino.build("spod-trtino", train).to("cuda").train()
        run = Training(made, train, config, torch.device("cuda"))
        (step,) = run.make_steps(False)
        assert isinstance(step, CapturedStep)
        assert isinstance(step.update, CapturedUpdate)
        samples = torch.arange(12, device="cuda")
        for _ in range(409):
            step(samples, None)
        assert (step.update.graph is not None) == (settled == 405)
        ends.append(torch.cat([p.detach().flatten() for p in made.parameters()]))
    assert torch.allclose(*ends, rtol=0, atol=1e-3 * float(ends[0].abs().max()))


class Idle(torch.nn.Module):
    """A linear map, and a parameter that gets no gradient."""

    def __init__(self, points: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.idle, self.linear = torch.nn.Parameter(torch.ones(3, 3)), torch.nn.Linear(points, points)

    def forward(self, f: torch.Tensor) -> torch.Tensor:
        return self.linear(f)


@pytest.mark.parametrize("optimizer", ["soap", "adam"])
def test_a_parameter_without_a_gradient_is_no_hindrance(optimizer, small_data, monkeypatch):
    """Past the steps after which SOAP's update is captured too: it was left out of a graph, and asked for its state."""
    train, _ = small_data("burgers-0.1")
    model = Idle(train.outputs.size)
    config = dataclasses.replace(CONFIG, optimizer=optimizer, lr=1e-3, steps=460)
    captures = []
    capture = CapturedUpdate._capture
    monkeypatch.setattr(CapturedUpdate, "_capture", lambda self, n: (captures.append(n), capture(self, n))[1])
    plain, captured = (trained(train, model, config, way, monkeypatch) for way in (False, True))
    assert len(captures) == (optimizer == "soap")
    assert torch.equal(captured[:9], torch.ones(9))
    assert torch.allclose(plain, captured, rtol=0, atol=1e-3 * float(plain.abs().max()))


def test_adam_goes_on_from_a_checkpoint(small_data, tmp_path):
    train, _ = small_data("burgers-0.1")
    whole = tino.build("tino", train)
    tino.fit(whole, train, CONFIG, show_progress=False)
    path = tmp_path / "checkpoint.safetensors"
    half = tino.build("tino", train).to("cuda").train()
    run = Training(half, train, CONFIG, torch.device("cuda"))
    (step,) = run.make_steps(False)
    assert isinstance(step, CapturedStep)
    run.save(path)  # at the very beginning
    again = tino.build("tino", train, seed=5)
    tino.fit(again, train, CONFIG, show_progress=False, checkpoint=path, resume=True)
    for p, q in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.allclose(p, q, rtol=0, atol=1e-4 * float(p.detach().abs().max()))


def test_a_peak_is_of_one_run_alone():
    from tino.environment import forget_peak_memory, peak_memory

    device = torch.device("cuda")
    large = torch.empty(2**26, device=device)
    del large
    assert peak_memory(device) >= 2**28
    forget_peak_memory(device)
    assert peak_memory(device) < 2**28
