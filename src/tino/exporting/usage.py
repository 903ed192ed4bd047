"""How an exported file is used, in a few lines of code: those that its card shows."""

from dataclasses import dataclass
from pathlib import Path

from tino.frame import numbers
from tino.operator import Operator
from tino.text import visible


@dataclass(frozen=True)
class Usage:
    """Lines of code in a language, and what the file does not check."""

    language: str
    code: tuple[str, ...]
    limits: tuple[str, ...]


def usage(model: Operator, path: Path, format: str) -> Usage:
    """Of a model exported to this path, in a format that ``export`` knows."""
    code = {"onnx": _onnx, "pt2": _pt2, "numpy": _numpy, "c": _c}[format](model, path)
    limits = ["Outside the ranges above it extrapolates, and the file does not warn: compare the inputs with them."]
    if format != "numpy":
        limits.append("The file does not check inputs: one that is NaN can make all later outputs NaN.")
    return Usage("c" if format == "c" else "python", tuple(code), tuple(limits))


def _shape(model: Operator) -> str:
    """Of the inputs, for a comment."""
    frame, kind = model.frame, str(numbers(model).dtype).removeprefix("torch.")
    times = "" if model.properties.causal else f"{frame.time.n}, "
    ic = f", ic (b, {frame.state})" if frame.state else ""
    return f"f (b, {times}{frame.input_size}){ic}, {kind}, of b records"


def _names(path: Path) -> str:
    start = path.with_name(f"{path.stem}.start{path.suffix}")
    return ", ".join(visible(repr(one.name)) for one in (start, path))


def _onnx(model: Operator, path: Path) -> list[str]:
    first = '{"f": f, "ic": ic}' if model.frame.state else '{"f": f}'
    if not model.properties.causal:
        load = f"record = onnxruntime.InferenceSession({visible(repr(path.name))})"
        return ["import onnxruntime", "", load, f"(u,) = record.run(None, {first})  # {_shape(model)}"]
    clock = "" if model.properties.autonomous else '"i": np.array(i), '
    state = '**{f"state_{n}": one for n, one in enumerate(state)}'
    return [
        *(["import numpy as np"] if clock else []),
        "import onnxruntime",
        "",
        f"start, step = (onnxruntime.InferenceSession(name) for name in ({_names(path)}))",
        f"u, *state = start.run(None, {first})  # {_shape(model)}",
        f'u, *state = step.run(None, {{"f": f, {clock}{state}}})  # {_next(clock)}',
    ]


def _pt2(model: Operator, path: Path) -> list[str]:
    first = "f, ic" if model.frame.state else "f"
    if not model.properties.causal:
        load = f"record = torch.export.load({visible(repr(path.name))}).module()"
        return ["import torch", "", load, f"u = record({first})  # {_shape(model)}"]
    clock = "" if model.properties.autonomous else "torch.tensor(i), "
    return [
        "import torch",
        "",
        f"start, step = (torch.export.load(name).module() for name in ({_names(path)}))",
        f"u, *state = start({first})  # {_shape(model)}",
        f"u, *state = step(f, {clock}*state)  # {_next(clock)}",
    ]


def _next(clock: str) -> str:
    return "the next f, and so on" + (", after i others" if clock else "")


def _numpy(model: Operator, path: Path) -> list[str]:
    frame = model.frame
    ic, told = (", ic", f", ic ({frame.state},)") if frame.state else ("", "")
    load = f"model = Runner({visible(repr(path.name))}{ic})"
    step = f"u = model.step(f)  # f ({frame.input_size},){told}, one time step after another"
    return ["from tino_runner import Runner", "", load, step]


def _c(model: Operator, path: Path) -> list[str]:
    frame, name = model.frame, path.stem
    return [
        f'#include "{name}.h"',
        "",
        f"{name}_state state;",
        f"{name}_start(&state, {f'ic); /* ic[{frame.state}] */' if frame.state else 'NULL);'}",
        f"{name}_step(&state, f, u); /* {name}_real f[{frame.input_size}], u[{frame.output_size}]; and so on */",
    ]
