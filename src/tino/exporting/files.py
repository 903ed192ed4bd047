"""The files of an exported model: written only if they give the model's own answers."""

import io
import json
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tino.data import grids_record
from tino.errors import TinoError, in_short, nearest, shown
from tino.exporting import runner
from tino.exporting.c import sources
from tino.exporting.graph import Graph, Run, compared, graphs, noise, output_difference
from tino.exporting.program import Program, program
from tino.files import whole_file, write_text
from tino.frame import numbers
from tino.operator import Operator
from tino.version import VERSION

CLOSE = {torch.float32: 1e-5, torch.float64: 1e-9}  # relative, of every output and state

CHECK = "largest relative difference to the model itself"  # every card of an export says it


@dataclass(frozen=True)
class Exported:
    """The files that were written, and their largest relative difference to the model itself."""

    files: tuple[Path, ...]
    difference: float
    tolerance: float


def export(model: Operator, path: str | Path, format: str = "onnx", card: str = "") -> Exported:
    """Write a model as ``onnx``, ``pt2``, ``numpy`` or ``c``; an error, and no file, if its answers differ.

    A causal model becomes one step with its state as inputs and outputs, and its start; others the whole record. A
    ``card`` is Markdown, such as ``tino.report.card.card_text`` of its run, to be written beside it with their names:
    model.onnx.md beside model.onnx. A file of that name that is no such card is left alone, with an error.
    """
    if not isinstance(model, Operator):
        raise TinoError(f"the model is {shown(model)}, expected one that tino.build or tino.load returns")
    if format not in FORMATS:
        raise TinoError(f"no format '{in_short(format, 40)}': {nearest(str(format), FORMATS)}")
    if (own := numbers(model).dtype) not in CLOSE:
        raise TinoError(
            f"the model is {str(own).removeprefix('torch.')}, expected float32 or float64: use model.float()"
        )
    path = Path(path)
    beside = path.with_name(f"{path.name}.md")
    if card and beside.exists() and not (beside.is_file() and CHECK in beside.read_text("utf-8", "replace")):
        raise TinoError(f"{beside} is not a card written by tino: move it, or export under another name")
    done = FORMATS[format](model, path)
    if not card:
        return done
    names = ", ".join(f"`{file.name}`" for file in done.files)
    told = f"{CHECK} {done.difference:.1e}, at most {done.tolerance:.0e}"
    write_text(beside, f"{card.rstrip()}\n\nExported as {names}: {told}.\n")
    return replace(done, files=(*done.files, beside))


def about(model: Operator, difference: float) -> dict[str, Any]:
    """What a program needs to know of an exported model, as plain JSON values."""
    frame = model.frame
    return {
        "tino": VERSION,
        "model": frame.model,
        "problem": frame.problem,
        "dt": frame.time.step,
        "longest": model.longest,
        **grids_record(frame),
        "seen": asdict(frame.seen),
        "checked": {"difference": difference, "tolerance": CLOSE[numbers(model).dtype]},
    }


def checked(model: Operator, difference: float, what: str, fix: str = "") -> None:
    tolerance = CLOSE[numbers(model).dtype]
    if math.isinf(difference):
        raise TinoError(
            f"{what}, or {model.frame.model} itself, answers noise with NaN or infinity: nothing was written"
        )
    if not difference <= tolerance:
        told = f"{what} differs from {model.frame.model} by {difference:.1e}"
        raise TinoError(f"{told}, more than {tolerance:.0e}: nothing was written{fix}")


def place(path: Path, graph: Graph) -> Path:
    """The start has a file of its own, beside that of the step."""
    return path.with_name(f"{path.stem}.start{path.suffix}") if graph.name == "start" else path


# -- graphs --------------------------------------------------------------------------------------------------


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter says about packages that no model here needs."""
    logs = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    before = [log.level for log in logs]
    try:
        for log in logs:
            log.setLevel(logging.ERROR)
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for log, level in zip(logs, before, strict=True):
            log.setLevel(level)


def _to_onnx(model: Operator, path: Path) -> Exported:
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401
    except ModuleNotFoundError as error:
        raise TinoError(f"ONNX needs the package {error.name}: pip install 'tino[onnx]'") from None

    def session_of(proto: Any) -> Run:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        try:
            session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
        except Exception as error:  # of its own kinds, such as an operator that it lacks for float64
            fix = "; try model.float()" if numbers(model).dtype == torch.float64 else ""
            told = f"onnxruntime cannot run the graph of {model.frame.model}: {in_short(error)}{fix}"
            raise TinoError(told) from error

        def run(given: dict[str, Tensor]) -> list[Tensor]:
            return [torch.from_numpy(one) for one in session.run(None, {k: v.numpy() for k, v in given.items()})]

        return run

    made, protos, difference = graphs(model), {}, float("nan")
    programs = {graph.name: graph.traced() for graph in made}
    for optimize in (True, False):  # the optimiser rounds some float64 constants to float32
        for graph in made:
            with _quiet():
                found = torch.onnx.export(
                    programs[graph.name],
                    input_names=list(graph.inputs),
                    output_names=list(graph.outputs),
                    dynamo=True,
                    external_data=False,
                    verbose=False,
                    optimize=optimize,
                )
            assert found is not None
            protos[graph.name] = found.model_proto
        difference = compared(model, {name: session_of(proto) for name, proto in protos.items()})
        if difference <= CLOSE[numbers(model).dtype]:
            break
    checked(model, difference, "its ONNX graph", "; the format pt2 rounds as torch does")
    if held := {node.op_type for proto in protos.values() for node in proto.graph.node} & {"DFT", "STFT"}:
        raise TinoError(f"the graph of {model.frame.model} holds {', '.join(held)}, which exported models must not")
    for proto in protos.values():
        onnx.helper.set_model_props(proto, {"tino": json.dumps(about(model, difference), ensure_ascii=False)})
    return _written(model, path, difference, made, lambda graph: protos[graph.name].SerializeToString())


def _to_pt2(model: Operator, path: Path) -> Exported:
    made = graphs(model)
    programs = {graph.name: graph.traced() for graph in made}

    def module_of(program: torch.export.ExportedProgram) -> Run:
        module = program.module()

        def run(given: dict[str, Tensor]) -> Any:
            answer = module(*given.values())
            return (answer,) if isinstance(answer, Tensor) else answer

        return run

    difference = compared(model, {name: module_of(program) for name, program in programs.items()})
    checked(model, difference, "its exported program")
    record = json.dumps(about(model, difference), ensure_ascii=False)

    def content(graph: Graph) -> bytes:
        raw = io.BytesIO()
        with _quiet():
            torch.export.save(programs[graph.name], raw, extra_files={"tino.json": record})
        return raw.getvalue()

    return _written(model, path, difference, made, content)


def _written(
    model: Operator, path: Path, difference: float, made: list[Graph], content: Callable[[Graph], bytes]
) -> Exported:
    files = tuple(place(path, graph) for graph in made)
    for file, graph in zip(files, made, strict=True):
        with whole_file(file) as part:
            part.write_bytes(content(graph))
    return Exported(files, difference, CLOSE[numbers(model).dtype])


# -- programs ------------------------------------------------------------------------------------------------


def _to_numpy(model: Operator, path: Path) -> Exported:
    made, raw = program(model), io.BytesIO()
    difference = _as_program(model, made)
    np.savez(raw, about=json.dumps(_program_about(model, made, difference)), **made.arrays)  # pyright: ignore
    copied = path.with_name("tino_runner.py")
    for file, content in ((path, raw.getvalue()), (copied, Path(runner.__file__).read_bytes())):
        with whole_file(file) as part:
            part.write_bytes(content)
    return Exported((path, copied), difference, CLOSE[numbers(model).dtype])


def _to_c(model: Operator, path: Path) -> Exported:
    made = program(model)
    difference = _as_program(model, made)
    header, source = sources(path.stem, made, about(model, difference))
    files = (path.with_suffix(".h"), path.with_suffix(".c"))
    for file, text in zip(files, (header, source), strict=True):
        write_text(file, text)
    return Exported(files, difference, CLOSE[numbers(model).dtype])


def _program_about(model: Operator, made: Program, difference: float) -> dict[str, Any]:
    return {**about(model, difference), **made.sizes()}


def _as_program(model: Operator, made: Program) -> float:
    """The largest difference over a few times of noise, as of graphs."""
    f, ic = noise(model, min(model.frame.time.n, 40))
    with torch.no_grad():
        u = model(f, ic)
    run = runner.Runner.__new__(runner.Runner)
    run.arrays, run.about = made.arrays, made.sizes()
    found = torch.zeros_like(u)
    for b in range(len(f)):
        run.start(() if ic is None else ic[b].numpy())
        found[b] = torch.stack([torch.from_numpy(np.asarray(run.step(one.numpy()))) for one in f[b]])
    difference = output_difference(model, found, u)
    checked(model, difference, "its program of arrays")
    return difference


FORMATS: dict[str, Callable[[Operator, Path], Exported]] = {
    "onnx": _to_onnx,
    "pt2": _to_pt2,
    "numpy": _to_numpy,
    "c": _to_c,
}
