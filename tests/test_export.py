"""Exported models: the model's own answers in ONNX, in torch's format, in numpy and in C."""

import ctypes
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from test_finer import beyond
from test_streaming import from_a_state
from torch import Tensor

import tino
from tino.cli import run
from tino.exporting import files, real, runner, usage
from tino.exporting.graph import Run, compared, graphs, noise, output_difference
from tino.exporting.program import program
from tino.frame import numbers
from tino.models.equations import Equation
from tino.models.family import Family
from tino.models.flow import Flow
from tino.models.fno import FnoBuilder
from tino.models.fno_step import FnoStepBuilder
from tino.models.learned import Learned
from tino.models.unet import UnetBuilder
from tino.parts.corrected import CorrectedLaw
from tino.parts.equation import EquationLaw

pytestmark = pytest.mark.filterwarnings("ignore::tino.TinoWarning")
SMALL: dict[type, dict[str, int]] = {
    Family: {"mixer_width": 16, "branch_width": 12, "trunk_width": 16, "factor_width": 16, "modes": 8},
    FnoBuilder: {"width": 6, "modes": 4, "layers": 2, "projection": 8},
    FnoStepBuilder: {"width": 6, "modes": 4, "layers": 2, "projection": 8},
    UnetBuilder: {"features": 4, "levels": 1, "groups": 2},
    Equation: {"steps": 1},
    Learned: {"width": 8, "steps": 1},
}
SOLVED = {"linear", "polynomial", "linear-clock", "polynomial-clock"}
NATURAL = ["tino", "pod-tino", "tdnn", "linear", "polynomial", "flow-tino"]  # as programs of arrays
COMPILER = shutil.which("cc") or shutil.which("gcc")


def shaken(model: tino.Operator) -> tino.Operator:
    """No weight at its first value: zeros would hide what they multiply."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.02 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return model.requires_grad_(False)


@pytest.fixture(scope="module")
def exported_models(tiny_data):
    """name -> fitted or shaken models of signals, fields and fields with initial states, where it takes them.

    Those that become programs also of a field around 300.
    """
    known: dict[str, list[tino.Operator]] = {}

    def get(name: str) -> list[tino.Operator]:
        if name not in known:
            known[name] = []
            cold = from_a_state()
            warm = replace(cold, u=300 + cold.u, ic=300 + cold.u[:, 0])
            for data in (tiny_data("duffing")[0], tiny_data("heat-triangle")[0], cold, *[warm] * (name in NATURAL)):
                try:
                    model = tino.build(name, data, **SMALL.get(type(tino.MODELS[name].builder), {}))
                    if name in SOLVED:
                        model.solve(model.frame.seen.centred(data))
                except tino.TinoError:
                    continue
                known[name].append(model.requires_grad_(False) if name in SOLVED else shaken(model))
            assert known[name]
        return known[name]

    return get


# -- graphs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tino.MODELS)
def test_the_graphs_of_every_model_are_the_model(name, exported_models):
    """The modules that are traced, run as they are: states as inputs and outputs, no FFT, no complex number."""
    for model in exported_models(name):
        made = graphs(model)
        assert [graph.name for graph in made] == (["step", "start"] if model.properties.causal else ["record"])
        assert compared(model, graph_runs(model)) <= files.CLOSE[made[0].inputs["f"].dtype]
        for graph in made:
            assert len(graph.outputs) == len(_answers(graph.module(*graph.inputs.values())))


def _answers(found) -> tuple[Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)


def several() -> tino.Dataset:
    """A temperature that varies by 1 K around 300 K, a pressure of 10 kPa, and a channel that is zero."""
    f = torch.rand(8, 12, 1, generator=torch.Generator().manual_seed(0)) - 0.5
    lag = f.cumsum(1) / 12
    u = torch.cat([300 + 4 * lag, 1e4 * (f + lag), 0 * f], -1)
    names = (tino.Channel("T", "K"), tino.Channel("p", "Pa"), tino.Channel("q"))
    grids = tino.TimeGrid(0.0, 1.0, 12), tino.Point(), tino.Point()
    return tino.Dataset(f, u, *grids, output_channels=names)


def graph_runs(model: tino.Operator) -> dict[str, Run]:
    return {one.name: lambda given, one=one: _answers(one.module(*given.values())) for one in graphs(model)}


def changed(model: tino.Operator, of: Callable[[Tensor], Tensor], first: int = 0) -> float:
    """What the check says of graphs whose outputs are changed, from a time on."""
    right, times = graph_runs(model), count()

    def wrong(name: str, given: dict[str, Tensor]) -> tuple[Tensor, ...]:
        u, *state = right[name](given)
        return (of(u) if next(times) >= first else u, *state)

    return compared(model, {name: partial(wrong, name) for name in right})


@pytest.mark.parametrize("name", ["tino", "gru", "linear"])
def test_a_check_sees_what_differs(name):
    """Each channel over its own variation: 300 K is no excuse, nor is a larger channel; rounding of 300 K is one."""
    data = several()
    model, other = (
        tino.build(name, data, seed=seed, **SMALL.get(type(tino.MODELS[name].builder), {})) for seed in (0, 1)
    )
    for one in (model, other):
        one.solve(data)
    model, other = shaken(model), shaken(shaken(other))
    close = files.CLOSE[numbers(model).dtype]
    assert compared(model, graph_runs(model)) <= close
    assert compared(model, graph_runs(other)) > 1e-2
    assert changed(model, lambda u: u * float("nan"), first=2) == float("inf")
    assert changed(model, lambda u: u + float("inf"), first=11) <= close  # beyond the check
    for n, offset in enumerate(model.frame.seen.output_offset):
        away = torch.arange(3) == n
        size = float((model(noise(model, 8)[0])[..., n] - offset).abs().max())
        assert changed(model, lambda u, away=away, o=offset: torch.where(away, o, u)) > (0.1 if size else -1)
        found = changed(model, lambda u, away=away, s=size or 1.0: u + 0.1 * s * away)
        assert found == pytest.approx(0.1, rel=0.1)


def test_a_check_that_fails_says_so_in_one_line(exported_models):
    model = exported_models("tino")[0]
    with pytest.raises(tino.TinoError, match=r"its graph differs from tino by 1\.0e-03, more than 1e-05: nothing was"):
        files.checked(model, 1e-3, "its graph")
    with pytest.raises(
        tino.TinoError, match="its graph, or tino itself, answers noise with NaN or infinity: nothing was"
    ):
        files.checked(model, float("inf"), "its graph")


def test_a_graph_that_rounds_otherwise_names_the_other_format(exported_models, monkeypatch, tmp_path):
    pytest.importorskip("onnxruntime")
    monkeypatch.setitem(files.CLOSE, torch.float64, -1.0)
    with pytest.raises(tino.TinoError, match=r"nothing was written; the format pt2 rounds as torch does$"):
        tino.export(exported_models("linear")[0], tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_program_of_arrays_is_compared_like_a_graph(monkeypatch, tmp_path):
    model = tino.build("linear", data := several())
    model.solve(data)
    step = runner.Runner.step
    tino.export(model, tmp_path / "model.npz", "numpy")
    for wrong in (np.array([4e-3, 0.0, 0.0]), np.array([0.0, 0.0, np.nan])):
        monkeypatch.setattr(runner.Runner, "step", lambda self, f, wrong=wrong: step(self, f) + wrong)
        with pytest.raises(tino.TinoError, match="its program of arrays"):
            tino.export(model, tmp_path / "other.npz", "numpy")
    assert not (tmp_path / "other.npz").exists()


def test_a_network_in_float64_runs_in_onnx(exported_models, tmp_path):
    """onnxruntime has no erf in float64, so the graph holds its own; flows in coefficients stay in float64."""
    pytest.importorskip("onnxruntime")
    model = exported_models("flow-tino")[0]
    assert isinstance(model, Flow)
    assert isinstance(model.law, CorrectedLaw)
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    assert tino.export(model, tmp_path / "model.onnx").difference <= 1e-12


def test_erf_of_exported_graphs_is_erf():
    x = torch.cat([torch.linspace(-8, 8, 4001), torch.tensor([0.0, 1e-9, 60.0])]).double()
    with real.real_numbers():
        found = torch.nn.functional.gelu(x)
    torch.testing.assert_close(found, torch.nn.functional.gelu(x), rtol=0, atol=1e-13)


class Normalised(torch.nn.GroupNorm):
    def forward(self, input: Tensor) -> Tensor:
        with real.real_numbers():
            return super().forward(input)


def test_means_of_many_numbers_keep_their_digits_in_onnx(tmp_path):
    """onnxruntime's own normalisation of 16 000 numbers is off by 3e-6."""
    onnxruntime = pytest.importorskip("onnxruntime")
    x = 2 + torch.rand(1, 4, 32, 16, 16, generator=torch.Generator().manual_seed(0))
    layer, path = Normalised(2, 4), tmp_path / "layer.onnx"
    with torch.no_grad(), warnings.catch_warnings(action="ignore"):
        expected = torch.nn.functional.group_norm(x.double(), 2, layer.weight.double(), layer.bias.double())
        torch.onnx.export(layer, (x,), path, input_names=["x"], dynamo=True, verbose=False, external_data=False)
    found = torch.from_numpy(onnxruntime.InferenceSession(str(path)).run(None, {"x": x.numpy()})[0])
    for one in (found, layer(x).detach()):
        torch.testing.assert_close(one.double(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["linear", "trtino"])  # all models: benchmarks/exports.py
def test_onnx_gives_the_model_s_answers(name, exported_models, tmp_path, caplog):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = exported_models(name)[-1]
    with caplog.at_level(logging.WARNING):
        done = tino.export(model, tmp_path / "model.onnx")
    assert not caplog.records
    assert [file.name for file in done.files] == ["model.onnx", "model.start.onnx"]
    assert done.difference <= done.tolerance
    step, start = (onnxruntime.InferenceSession(str(file)) for file in done.files)
    about = json.loads(step.get_modelmeta().custom_metadata_map["tino"])
    assert about["checked"] == {"difference": done.difference, "tolerance": done.tolerance}
    assert about["dt"] == model.frame.time.step
    assert [one["name"] for one in about["output_channels"]] == ["u"]
    f, ic = noise(model, 6)
    u = model(f, ic).numpy()
    given = {} if ic is None else {"ic": ic.numpy()}
    for b in (1, 3):  # any number of records
        first = {key: value[:b] for key, value in given.items()}
        answer, *state = start.run(None, {"f": f[:b, 0].numpy(), **first})
        for i in range(1, 6):
            assert np.allclose(answer, u[:b, i - 1], rtol=0, atol=1e-5 * np.abs(u).max())
            inputs = {f"state_{n}": one for n, one in enumerate(state)}
            clock = {} if model.properties.autonomous else {"i": np.array(i)}
            answer, *state = step.run(None, {"f": f[:b, i].numpy(), **clock, **inputs})


def on_a_box(dimensions: int, finer: bool) -> tino.Operator:
    """An equation with every term, and perhaps with waves beyond the samples."""
    shape, generator = [4] * dimensions, torch.Generator().manual_seed(0)
    f, u = (torch.randn(4, 6, 4**dimensions, generator=generator) for _ in range(2))
    grid = tino.Periodic(1.0, tuple(shape))
    data = tino.Dataset(f, u, tino.TimeGrid(0.0, 0.5, 6), grid, grid)
    model = tino.build("equation", data, steps=1, degree=2)
    assert isinstance(model, Flow)
    if finer:
        model.law = EquationLaw(beyond(shape, [2] * dimensions), 1.0, 0.1, 1, 2)
    with torch.no_grad():
        for p in model.law.parameters():
            p.copy_(0.02 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return model.requires_grad_(False)


@pytest.mark.parametrize(("dimensions", "finer"), [(1, False), (2, True), (3, False)])
def test_an_equation_is_exported_in_every_dimension(dimensions, finer, tmp_path):
    """With waves that have no velocity among others, and waves that look alike on the samples."""
    model = on_a_box(dimensions, finer)
    done = tino.export(model, tmp_path / "model.pt2", "pt2")
    assert done.difference <= 1e-13
    if finer:
        pytest.importorskip("onnxruntime")
        assert tino.export(model, tmp_path / "model.onnx").difference <= 1e-13


def test_torch_s_own_format_holds_the_state_as_an_argument(exported_models, tmp_path):
    model = exported_models("polynomial")[0]
    done = tino.export(model, tmp_path / "model.pt2", "pt2")
    extra = {"tino.json": ""}
    step = torch.export.load(str(done.files[0]), extra_files=extra).module()
    assert json.loads(extra["tino.json"])["model"] == "polynomial"
    state, _ = model.start(noise(model, 1)[0][:1, 0])
    f = torch.full((1, 1), 0.3, dtype=torch.float64)
    after, u = model.step(state, f)
    found = step(f, *state.memory)
    assert torch.allclose(found[0], u)
    assert torch.allclose(found[1], after.memory[0])


def test_real_numbers_are_complex_ones():
    """FFTs of one to three axes and every operator that the waves use, beside torch's complex arithmetic."""
    generator = torch.Generator().manual_seed(0)
    for shape in ((7,), (8,), (6, 5), (4, 6, 3)):
        u, axes = torch.randn(2, *shape, generator=generator, dtype=torch.float64), tuple(range(-len(shape), 0))
        for transform in (torch.fft.fftn, torch.fft.rfftn):
            with real.real_numbers():
                found = transform(u, dim=axes, norm="forward")
            assert isinstance(found, real.Pair)
            assert torch.allclose(torch.complex(found.real, found.imag), transform(u, dim=axes, norm="forward"))
        with real.real_numbers():
            whole, half = (one(u, dim=axes, norm="forward") for one in (torch.fft.fftn, torch.fft.rfftn))
            back = torch.fft.ifftn(whole, dim=axes, norm="forward")
            assert torch.allclose(torch.fft.irfftn(half, list(shape), dim=axes, norm="forward"), u)
        assert torch.allclose(back.real, u)
        assert torch.allclose(back.imag, 0 * u)
    a, b, x = (torch.randn(3, generator=generator, dtype=torch.float64) for _ in range(3))

    def formula() -> list:
        z = torch.complex(a, b)
        w = torch.tensor([1j, 2.0, -1j]).to(z)
        found = [z * w, x * z, z * x, 1j * x, x + z, z - x, x - z, 2 * z, z / 3, -z, z + 0j, x + 1j, torch.exp(z)]
        found += [torch.where(x > 0, z, w), torch.stack([z, w]), torch.cat([z, w]), torch.zeros_like(z), 1j * z]
        places = torch.tensor([2, 0, 2])
        found += [z.conj(), z.new_zeros(3).index_add(-1, places, z), z.new_zeros(3).index_copy(-1, places[:2], z[:2])]
        return [*found, torch.ones_like(z), z.sum(0), z[None, 1:].flatten()]

    expected = formula()
    with real.real_numbers():
        found = formula()
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(
            torch.complex(*(part.double() for part in (one.real, one.imag))), other.to(torch.complex128)
        )


# -- programs of arrays ----------------------------------------------------------------------------------------


def programs(name: str, exported_models) -> list[tino.Operator]:
    found = []
    for model in exported_models(name):
        try:
            program(model)
        except tino.TinoError:
            continue
        found.append(model)
    assert found
    return found


@pytest.mark.parametrize("name", NATURAL)
def test_the_numpy_runner_gives_the_model_s_answers(name, exported_models, tmp_path):
    for model in programs(name, exported_models):
        done = tino.export(model, tmp_path / "model.npz", "numpy")
        assert done.files[1].read_text() == Path(runner.__file__).read_text()
        f, ic = noise(model, 30 if model.longest is None else model.frame.time.n)
        u = model(f, ic)[1].numpy()
        made = runner.Runner(tmp_path / "model.npz", () if ic is None else ic[1].numpy())
        found = np.stack([made.step(one) for one in f[1].numpy()])
        assert found.dtype == u.dtype
        assert output_difference(model, *map(torch.from_numpy, (found, u))) <= 2e-6
        assert made.about["dt"] == model.frame.time.step


def test_the_runner_needs_only_numpy(exported_models, tmp_path):
    tino.export(exported_models("linear")[0], tmp_path / "model.npz", "numpy")
    script = (
        "import sys; from tino_runner import Runner; m = Runner('model.npz'); print(m.step([1.0]), m.step([1.0]));"
        "assert not {'torch', 'scipy', 'tino'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True)
    lines = Path(runner.__file__).read_text().split('"""')[2].splitlines()
    assert len([line for line in lines if line.strip()]) <= 43


def test_the_runner_refuses_what_makes_no_sense(exported_models, tmp_path):
    """In one line, and its state stays as it was."""
    model = next(one for one in programs("tino", exported_models) if one.frame.state)
    tino.export(model, path := tmp_path / "model.npz", "numpy")
    f, ic = (one[0].numpy() for one in noise(model, 2) if one is not None)
    with pytest.raises(ValueError, match=r"^ic has shape \(0,\), expected \(10,\) without NaN and infinity$"):
        runner.Runner(path)
    m = runner.Runner(path, ic)
    with pytest.raises(ValueError, match=r"^ic has shape \(10, 1\), expected \(10,\) without NaN and infinity$"):
        m.start(ic[:, None])
    m.step(f[0])
    for wrong in (f[0, :9], f[:1], f[0] * np.nan, 1.0):
        with pytest.raises(ValueError, match=r"^f has shape \(.*\), expected \(10,\) without NaN and infinity$"):
            m.step(wrong)
    u = m.step(f[1])
    m.start(ic)
    assert (np.stack([m.step(one) for one in f])[1] == u).all()


def test_a_linear_law_is_one_product(exported_models):
    arrays = program(exported_models("linear")[0]).arrays
    assert "linear" in arrays
    assert not {"read", "index", "weights"} & set(arrays)


@pytest.mark.skipif(COMPILER is None and not os.environ.get("CI"), reason="there is no C compiler")
@pytest.mark.parametrize("name", NATURAL)
def test_c_gives_the_model_s_answers(name, exported_models, tmp_path):
    assert COMPILER is not None, "CI needs a C compiler"
    for k, model in enumerate(programs(name, exported_models)):
        done = tino.export(model, tmp_path / f"model_{k}.c", "c")
        assert [file.suffix for file in done.files] == [".h", ".c"]
        library, source = tmp_path / f"model_{k}.so", done.files[1]
        flags = ["-O2", "-Wall", "-Wextra", "-pedantic", "-Werror", "-shared", "-fPIC"]
        built = subprocess.run(
            [COMPILER, *flags, "-o", library, source, "-lm"], capture_output=True, text=True, check=False
        )
        assert built.returncode == 0, built.stderr
        code = ctypes.CDLL(str(library))
        f, ic = noise(model, 30 if model.longest is None else model.frame.time.n)
        u = model(f, ic)[1].numpy()
        state = ctypes.create_string_buffer(2**22)
        start = None if ic is None else ic[1].numpy().ctypes.data_as(ctypes.c_void_p)
        getattr(code, f"model_{k}_start")(state, start)
        found, answer = np.empty_like(u), np.empty_like(u[0])
        for i, given in enumerate(np.ascontiguousarray(f[1].numpy())):
            pointers = (one.ctypes.data_as(ctypes.c_void_p) for one in (given, answer))
            getattr(code, f"model_{k}_step")(state, *pointers)
            found[i] = answer
        assert output_difference(model, *map(torch.from_numpy, (found, u))) <= 2e-6


def test_what_has_no_program_says_why(exported_models, tmp_path):
    lines = {
        "trtino": "its time factor depends on t",
        "don": "its mixer sees the future",
        "equation": "no program of products and networks is known for a law of kind 'equation'",
        "fno-step": "no program of products and networks is known for a FnoStep",
    }
    for name, why in lines.items():
        with pytest.raises(tino.TinoError) as caught:
            tino.export(exported_models(name)[0], tmp_path / "model.c", "c")
        assert why in str(caught.value)
        assert str(caught.value).endswith("export it as onnx")
        assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
    with pytest.raises(tino.TinoError, match=r"the name of a C file is '2-x', expected letters"):
        tino.export(exported_models("linear")[0], tmp_path / "2-x.c", "c")
    with pytest.raises(tino.TinoError, match="no format 'onx': did you mean 'onnx'"):
        tino.export(exported_models("linear")[0], tmp_path / "x", "onx")


# -- the command -----------------------------------------------------------------------------------------------


def test_the_command_writes_beside_the_model(exported_models, tmp_path, capsys):
    exported_models("linear")[0].save(tmp_path)
    assert run(["export", str(tmp_path), "--format", "c", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"] == [str(tmp_path / "model.h"), str(tmp_path / "model.c")]
    assert run(["export", str(tmp_path), "--format", "numpy", "--out", str(tmp_path / "x.txt")]) == 1
    assert capsys.readouterr().err.endswith("x.txt, expected a name that ends in .npz\n")


def test_the_card_of_a_run_goes_with_its_export(tmp_path, capsys, own_cache):
    folder, out = tmp_path / "run", tmp_path / "out" / "motor.npz"
    assert run(["train", "duffing", "linear", "--train", "24", "--test", "2", "--n-t", "40", "--out", str(folder)]) == 0
    capsys.readouterr()
    assert run(["export", str(folder), "--format", "numpy", "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["files"]
    assert told == [str(out.with_name(name)) for name in ("motor.npz", "tino_runner.py", "motor.npz.md")]
    text = (beside := out.with_name("motor.npz.md")).read_text(encoding="utf-8")
    assert text.startswith("# linear on duffing")
    assert "24 for training, 2 for the test" in text
    names, told = text.splitlines()[-1].split(": ")
    assert names == "Exported as `motor.npz`, `tino_runner.py`"
    assert re.fullmatch(r"largest relative difference to the model itself \S+, at most 1e-09\.", told)
    assert "from tino_runner import Runner\n\nmodel = Runner('motor.npz')\nu = model.step(f)" in text
    assert "tino.load" not in text
    assert "tino.predict" not in text
    assert "the file does not warn" in text
    assert run(["export", str(folder), "--format", "c", "--out", str(out.with_suffix(".c"))]) == 0
    assert beside.read_text(encoding="utf-8") == text  # each format has a card of its own
    code = out.with_name("motor.c.md").read_text(encoding="utf-8").split("```")[1]
    assert code.startswith('c\n#include "motor.h"\n')
    assert run(["export", str(folder), "--format", "numpy", "--out", str(out)]) == 0  # its own card is replaced
    before = [file.unlink() for file in out.parent.glob("*.npz")]
    beside.write_text("# My notes\n")
    capsys.readouterr()
    assert run(["export", str(folder), "--format", "numpy", "--out", str(out)]) == 1
    told = f"tino: {beside} is not a card written by tino: move it, or export under another name\n"
    assert capsys.readouterr().err == told
    assert (beside.read_text(), len(before), out.exists()) == ("# My notes\n", 1, False)


OF_CARDS = ["linear", "pod-tino", "trtino", "don"]  # with initial states, a clock, and whole records


@pytest.mark.parametrize("format", ["onnx", "pt2", "numpy"])
@pytest.mark.parametrize("name", OF_CARDS)
def test_the_code_of_a_card_gives_the_model_s_answers(name, format, exported_models, tmp_path, monkeypatch):
    path = tmp_path / f"model.{format.replace('numpy', 'npz')}"
    if format == "onnx":
        pytest.importorskip("onnxruntime")
    if format == "numpy" and name not in NATURAL:
        return
    model = (programs(name, exported_models) if format == "numpy" else exported_models(name))[-1]
    tino.export(model, path, format)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tino_runner", raising=False)
    found, (f, ic) = usage(model, path, format), noise(model, model.frame.time.n)
    assert ("NaN" in " ".join(found.limits)) == (format != "numpy")
    u, code = model(f, ic), "\n".join(found.code)
    given, answer = (f, ic), u
    if model.properties.causal:
        given, answer = (f[:, 0], ic), u[:, 1]
    if format == "numpy":
        given, answer = (f[0, 0], None if ic is None else ic[0]), u[0, 1]
    like = torch.Tensor.clone if format == "pt2" else torch.Tensor.numpy
    names = {key: like(one) for key, one in zip(("f", "ic"), given, strict=True) if one is not None}
    first = code if format == "numpy" or not model.properties.causal else "\n".join(found.code[:-1])
    exec(first, names)
    if model.properties.causal:
        names |= {"f": like(f[0, 1] if format == "numpy" else f[:, 1]), "i": 1}
        exec(found.code[-1], names)
    assert torch.allclose(torch.as_tensor(names["u"]), answer, rtol=1e-4, atol=1e-5 * float(answer.abs().max()))


@pytest.mark.skipif(COMPILER is None and not os.environ.get("CI"), reason="there is no C compiler")
@pytest.mark.parametrize("name", OF_CARDS[:2])
def test_the_c_of_a_card_gives_the_model_s_answers(name, exported_models, tmp_path):
    assert COMPILER is not None, "CI needs a C compiler"
    model = programs(name, exported_models)[-1]
    tino.export(model, tmp_path / "model.c", "c")
    include, *lines = usage(model, tmp_path / "model.c", "c").code
    f, ic = noise(model, 2)
    arrays = {"f": f[0, 0], "ic": torch.zeros(1) if ic is None else ic[0]}
    held = [f"model_real {key}[] = {{{', '.join(map(repr, one.tolist()))}}};" for key, one in arrays.items()]
    show = 'for (int k = 0; k < MODEL_OUTPUTS; k++) printf("%.9g\\n", (double)u[k]);'
    body = "\n".join([*held, "model_real u[MODEL_OUTPUTS];", *lines, "(void)ic;", show, "return 0;"])
    (tmp_path / "main.c").write_text(f"#include <stdio.h>\n{include}\nint main(void) {{\n{body}\n}}\n")
    flags = ["-Wall", "-Wextra", "-Werror", "-o", "main", "main.c", "model.c", "-lm"]
    built = subprocess.run([COMPILER, *flags], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.split()
    u = model(f, ic)[0, 0]
    assert list(map(float, said)) == pytest.approx(u.tolist(), rel=1e-4, abs=1e-5 * float(u.abs().max()))


@pytest.mark.skipif(COMPILER is None and not os.environ.get("CI"), reason="there is no C compiler")
def test_names_of_channels_do_not_end_or_open_a_comment(tmp_path):
    assert COMPILER is not None, "CI needs a C compiler"
    data = replace(several(), output_channels=tuple(tino.Channel(name) for name in ("a/*b", "c*/d", "e/*/f*/*")))
    model = tino.build("linear", data)
    model.solve(data)
    done = tino.export(model, tmp_path / "model.c", "c")
    flags = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-c", "-o", tmp_path / "model.o", done.files[1]]
    built = subprocess.run([COMPILER, *flags], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert "Inputs are not checked" in done.files[0].read_text()


def test_a_missing_package_is_named(exported_models, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(tino.TinoError, match=r"ONNX needs the package onnxscript: pip install 'tino\[onnx\]'"):
        tino.export(exported_models("linear")[0], tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
