"""The house's own rules: imports run one way, files stay readable, docs name what exists."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tino
from tino.models.family import Family

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tino"

# from left to right: a module imports only from rooms to its left (or from its own room)
LINE = [
    "version errors text devices environment files folders progress grids channels",
    "inputs",
    "solvers",
    "problems",
    "options",
    "data",
    "storage",
    "sizes",
    "generation",
    "pod least_squares",
    "holdout",
    "split",
    "sources",
    "seen",
    "frame",
    "calls arrays properties",
    "operator",
    "memories",
    "linear",
    "streaming",
    "parts",
    "models",
    "exporting",
    "regression blocks",
    "statehood",
    "diagnosis",
    "training",
    "metrics",
    "evaluation",
    "race",
    "surrogate",
    "importing",
    "readouts bands",
    "subjects",
    "probes",
    "certificates",
    "preview",
    "paper",
    "results",
    "runs",
    "bench",
    "report",
    "commands",
    "cli",
    "__main__ __init__ public",
]
PLACE = {room: place for place, rooms in enumerate(LINE) for room in rooms.split()}


def imported(path: Path) -> set[str]:
    """The rooms of tino that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tino":
            parts = (node.module or "").split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_run_from_left_to_right(path):
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for other in imported(path):
        own = other == room and path.parent != SOURCE
        assert own or PLACE[other] <= PLACE[room], f"{path.name} imports {other}, which lies to its right"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_fit_in_one_sitting(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 320


def test_the_readme_lists_every_problem_and_model():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in [*tino.problem_names(), *tino.MODELS]:
        assert f"`{name}`" in text, f"README.md does not list {name}"


def test_public_names_exist():
    assert all(hasattr(tino, name) for name in tino.__all__)


def test_the_changelog_knows_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(tino.__version__)}\]", text, flags=re.MULTILINE)


MODEL_FREE = [
    "operator.py",
    "arrays.py",
    "calls.py",
    "memories.py",
    "linear.py",
    "streaming.py",
    "certificates.py",
    "probes.py",
    "diagnosis.py",
    "statehood.py",
    "race.py",
    "models/store.py",
    "models/registry.py",
]
MODEL_FREE += [f"training/{path.name}" for path in (SOURCE / "training").glob("*.py")]


@pytest.mark.parametrize("name", MODEL_FREE)
def test_the_rooms_behind_the_contract_name_no_model(name):
    """Neither a registered name nor a class of ``models``."""
    tree = ast.parse((SOURCE / name).read_text(encoding="utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert not texts & set(tino.MODELS)
    kinds = {model.kind.__name__ for model in tino.MODELS.values()}
    assert not {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & kinds


FLAG = re.compile(r"(?<![\w-])--[a-z]")


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_library_errors_hold_no_command_line_flags(path):
    if path.relative_to(SOURCE).parts[0] in ("commands", "cli.py", "environment.py"):  # the last calls git
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise):
            texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
            assert not any(FLAG.search(text) for text in texts), texts


def test_the_page_on_the_paper_states_every_width():
    text = " ".join((ROOT / "docs" / "paper.md").read_text(encoding="utf-8").split())
    built = tino.MODELS["trtino"].builder
    assert isinstance(built, Family)
    assert f"branch of 3 layers, width {built.branch_width}" in text
    assert f"trunk of {built.trunk_layers} layers, width {built.trunk_width}" in text
    assert f"delay layer of width {built.mixer_width}" in text
    assert f"time factor: a network of t with three linear maps and width {built.factor_width}" in text


def test_modules_are_there_at_the_first_use():
    script = "import tino; tino.problems; tino.training; assert not hasattr(tino, 'nope')"
    subprocess.run([sys.executable, "-c", script], check=True)
