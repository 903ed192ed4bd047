"""Names with markup and control characters: every page, picture and terminal shows them letter by letter."""

import json
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markdown_it import MarkdownIt
from test_report import record

import tino
from tino.cli import run
from tino.commands.printing import print_json
from tino.files import SEAL, read_json, write_json, write_sealed
from tino.models.registry import MODELS
from tino.preview import take_preview, write_preview
from tino.problems import base
from tino.progress import progress
from tino.report.markup import Line, Markup
from tino.report.runs_report import labels
from tino.results import Result
from tino.runs import Run
from tino.text import visible

MARKED = r"_a|b<script>alert(1)<b>[red]$\frac{x$`c`**d**&lt;~~{e}%#^"  # no slash: it is also a file's name
HOSTILE = f"{MARKED}\x1b[31m\r\u202e"
SHOWN = rf"{MARKED}\x1b[31m\r\u202e"
TABLE = ("table", "thead", "tbody", "tr", "th", "td")
ACTING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Read(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags |= {tag, *(name for name, _ in attrs if name.startswith("on"))}

    def handle_data(self, data: str) -> None:
        self.text += data


def as_html(markdown: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown)


def check_page(path: Path, shown: str = SHOWN) -> None:
    page = path.read_text(encoding="utf-8")
    found = Read(page)
    assert shown in found.text
    assert not {"script", "b", "s"} & found.tags - ({"b"} if "<b>1" in page else set())
    assert not ACTING.search(page)


def check_terminal(capsys: pytest.CaptureFixture[str], *texts: str) -> str:
    """What was printed: nothing acts on the terminal, and the texts stand there, lines joined."""
    out, err = capsys.readouterr()
    assert not ACTING.search(out + err)
    for text in texts:
        assert "".join(text.split()) in "".join((out + err).split())
    return out + err


def test_characters_that_act_or_hide_are_written_out():
    for text, shown in (
        ("\x1b[31m", r"\x1b[31m"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x7f\x9b", r"\x7f\x9b"),
        ("\u202eabc\u2066", r"\u202eabc\u2066"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("\u2028", r"\u2028"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ):
        assert visible(text) == shown
    for text in ("Größe [µm/s²]", "速度", "σ² ± 1 °C", "a\u2009b", "🙂", ""):
        assert visible(text) == text


def test_names_that_cannot_be_seen_are_refused_at_the_door(tmp_path, capsys):
    said = r"the .* 'a\\x1b\[31m' holds characters that cannot be seen: leave them out"
    name, u = "a\x1b[31m", np.random.default_rng(0).normal(size=(12, 20, 1))
    for attempt in (
        lambda: tino.Channel(name),
        lambda: tino.Channel("force", name),
        lambda: tino.register_model(name, MODELS["tino"]),
        lambda: base.register(name)(lambda name: tino.problem("duffing")),
    ):
        with pytest.raises(tino.TinoError, match=said):
            attempt()
    assert name not in MODELS
    assert name not in tino.problem_names()
    for key in ("title", "u_names", "u_units"):
        np.savez(tmp_path / "rig.npz", f=u, u=u, t=np.linspace(0, 1, 20), **{key: np.array([name])})  # pyright: ignore
        with pytest.raises(tino.TinoError, match=said):
            tino.read_arrays(tmp_path / "rig.npz")
        assert run(["diagnose", str(tmp_path / "rig.npz")]) == 1
        assert len(check_terminal(capsys, r"a\x1b[31m").splitlines()) == 1


def test_a_report_of_a_bench_shows_names_as_they_are(tmp_path, capsys, small_data):
    results, made = tmp_path / "results", tmp_path / "report"
    for one in (record(HOSTILE, HOSTILE, 1.0), record(HOSTILE, "don", 2.0), record("duffing", HOSTILE, 1.0)):
        one["optimizer"] = one["title"] = one["device"] = HOSTILE
        write_json(results / one["problem"] / f"{one['model']}-0.json", one)
    train, test = small_data("duffing")
    kept = take_preview(tino.build("trtino", train), test)
    for problem in (HOSTILE, "duffing"):
        write_preview(results / problem / f"{HOSTILE}-0.safetensors", kept)
    assert run(["report", str(results), "--out", str(made)]) == 0
    check_terminal(capsys, SHOWN)
    check_page(made / "index.html")
    assert all(re.fullmatch(r"[\w.-]+", path.name) for path in made.iterdir())
    text = (made / "report.md").read_text(encoding="utf-8")
    assert not ACTING.search(text)
    found = Read(as_html(text))
    assert found.text.count(SHOWN) >= 10
    assert found.tags <= {"h1", "h2", "p", *TABLE, "strong", "br", "sub", "ins", "img"}
    for picture in re.findall(r"!\[.*\]\((.*)\)", text):
        assert (made / picture).exists()
    written = (made / "tables.tex").read_text(encoding="utf-8")
    assert not ACTING.search(written)
    name = (
        r"\_a\textbar{}b$<$script$>$alert(1)$<$b$>${[}red{]}\$\textbackslash{}frac\{x\$"
        r"\textasciigrave{}c\textasciigrave{}{*}{*}d{*}{*}\&lt;\textasciitilde{}\textasciitilde{}\{e\}\%\#"
        r"\textasciicircum{}\textbackslash{}x1b{[}31m\textbackslash{}r\textbackslash{}u202e"
    )
    assert name in written
    assert run(["report", str(results), "--out", str(made), "--json"]) == 0
    out = capsys.readouterr().out
    assert not ACTING.search(out)
    assert json.loads(out)["results"][-1]["model"] in (HOSTILE, "don")


def test_every_command_shows_names_as_they_are(tmp_path, capsys, monkeypatch):
    """A model, a problem, a file, its title, channels and units, and a folder; the folder may act on a terminal too."""
    monkeypatch.setitem(MODELS, MARKED, MODELS["tino"])
    monkeypatch.setitem(base._FACTORIES, MARKED, base._FACTORIES["duffing"])
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr("tino.progress.FIRST", -1.0)  # every line of progress
    assert run(["models"]) == run(["problems"]) == 0
    check_terminal(capsys, MARKED)
    assert run(["show", MARKED, "--n-t", "30", "--pod", "1", "--out", str(tmp_path / f"{HOSTILE}.png")]) == 0
    check_terminal(capsys, SHOWN, MARKED)
    path, folder = tmp_path / f"{HOSTILE}.npz", tmp_path / HOSTILE
    u = np.random.default_rng(0).normal(size=(30, 20, 2))
    names: Any = {"title": MARKED, "u_names": [MARKED, "_b"], "u_units": [MARKED, "$"]}
    np.savez(path, f=u[..., :1], u=u, t=np.linspace(0, 1, 20), **names)
    assert run(["diagnose", str(path)]) == 0
    check_terminal(capsys)
    assert run(["train", str(path), MARKED, "--epochs", "1", "--device", "cpu", "--out", str(folder)]) == 0
    check_terminal(capsys, f"training {MARKED}", f"saved in {visible(str(folder))}", "[red]")
    assert run(["evaluate", str(folder)]) == run(["certify", str(folder)]) == 0
    check_terminal(capsys, MARKED)
    for model, shown in ((MARKED, MARKED), (HOSTILE, SHOWN), ("../../out", "../../out")):  # a run from elsewhere
        record = {key: value for key, value in read_json(folder / "run.json").items() if key != SEAL}
        write_sealed(folder / "run.json", {**record, "model": model, "problem": model})
        assert run(["report", str(folder), "--out", str(tmp_path / "a" / "b" / "report")]) == 0
        check_terminal(capsys, shown)
        check_page(tmp_path / "a" / "b" / "report" / "index.html", shown)
    assert not [*tmp_path.glob("*.png"), *tmp_path.glob("a/*.png")][1:]  # but the one that show wrote


def test_errors_and_warnings_are_one_line_whatever_they_name(capsys):
    assert run(["train", "no\x1b]0;x\x07\nfile.npz", "tino"]) == 1
    assert check_terminal(capsys) == "tino: no file no\\x1b]0;x\\x07\\nfile.npz\n"

    def warn(self: Any) -> None:
        warnings.simplefilter("always")  # not an error, as elsewhere in the tests
        warnings.warn("a\x1b[31m\nb", tino.TinoWarning, stacklevel=1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tino.commands.data.Problems.run", warn)
        assert run(["problems"]) == 0
    assert check_terminal(capsys) == "tino: note: a\\x1b[31m\\nb\n"


@pytest.mark.parametrize("live", [True, False])
def test_progress_shows_its_label_as_it_is(live, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("tino.progress.FIRST", -1.0)
    if live:
        monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("training [red]a\x1b]0;b\x07", 2) as advance:
        advance(1, "[bold]")
    said = capsys.readouterr().err
    assert r"training [red]a\x1b]0;b\x07" in said
    assert "[bold]" in said
    assert "\x1b]" not in said
    assert "\x07" not in said


def test_json_on_a_terminal_reads_back_the_same(capsys):
    value = {"a\x9b\u202e": ["\x1b[31m", "\ud800", "\U000e0041", "Größe", "line\nline"]}
    print_json(value)
    assert json.loads(said := check_terminal(capsys)) == value
    assert "Größe" in said


@pytest.mark.parametrize(
    "text", [MARKED, "a\\|b", "|", "\\", "``", "[a](b)", "![a](b)", "<!-- a", "&amp;", "__a__", "$x$"]
)
def test_a_cell_reads_the_same_in_markdown_and_html(text):
    table = Markup("t", "", (text, "x"), (((Line(text),), (Line("1"),)),) * 2)
    for page in (as_html(table.markdown()), table.html()):
        found = Read(page)
        assert found.text.replace("\n", "").count(text) == 3
        assert found.tags <= {*TABLE, "div"}


def test_a_latex_row_may_begin_with_a_bracket_or_a_star():
    r"""After \\ these would be its optional argument and its starred form."""
    written = Markup("t", "", ("a",), (((Line("[2cm]"),),), ((Line("*b"),),))).latex()
    assert not re.search(r"\\\\\s*[\[*]", written)


def _run(folder: str, problem: str, model: str) -> Run:
    return Run(Path(folder), Result.from_record(record(problem, model, 1.0), Path("run.json")), {}, [1.0], {}, {})


def test_runs_of_one_model_are_told_apart_by_the_end_of_their_folder():
    places = ["a/long/trtino-0", "a/short/trtino-0", "a/short/other", "a/don"]
    runs = [_run(place, "duffing", Path(place).name.split("-")[0].replace("other", "trtino")) for place in places]
    runs.append(_run("a/lorenz/don", "lorenz", "don"))  # other data have their own table
    assert labels(runs) == ["trtino (long/trtino-0)", "trtino (short/trtino-0)", "trtino (other)", "don", "don"]
    twice = [_run("a/trtino-0", "duffing", "trtino")] * 2
    assert labels(twice) == ["trtino (trtino-0)"] * 2
    deeper = [_run(place, "duffing", "tino") for place in ("x", "a/x")]
    assert labels(deeper) == [f"tino ({Path.cwd().name}/x)", "tino (a/x)"]
