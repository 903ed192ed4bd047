"""Solvers follow the coefficients: where accuracy is not known it is measured, and the solver refined."""

import dataclasses
import json

import pytest
import torch

import tino
from tino import generation
from tino.inputs import sine, sine_gaussian
from tino.problems import base, refinement, register
from tino.problems.periodic import burgers, navier_stokes
from tino.problems.refinement import BOUND, find_refinement, has_known_accuracy, work
from tino.storage import read_record


def early(problem: tino.Problem, n: int) -> tino.Problem:
    """The first n output times of a problem."""
    return dataclasses.replace(problem, time=tino.TimeGrid(0.0, float(problem.time.points[n - 1]), n))


def relative(u: torch.Tensor, reference: torch.Tensor) -> float:
    return float(((u - reference).norm() / reference.norm()).max())


@pytest.mark.parametrize(
    ("problem", "finest"),
    [
        (early(burgers("burgers-0.003", n_t=41, resolution=32, nu=0.003), 6), 6),
        (early(burgers("burgers-0.001", n_t=81, resolution=32, nu=0.001), 6), 6),
        (early(navier_stokes("navier-stokes", n_t=9, resolution=32, nu=1e-4), 4), 4),
    ],
    ids=lambda value: f"{value.name}-{value.options['nu']}" if isinstance(value, tino.Problem) else "",
)
def test_small_coefficients_are_solved_finely_enough(problem, finest, tmp_path):
    forcing = problem.law.sample(5, 1, range(1))
    reference = problem.solve(forcing, refine=finest)
    assert relative(problem.solve(forcing), reference) > BOUND  # what was stored, without a word
    with pytest.warns(tino.TinoWarning, match=r"solved with [234]x the points and steps, else off by \de-0\d"):
        _, test = tino.dataset(problem, 5, 1, 1, tmp_path, show_progress=False)
    assert relative(test.u[0].double(), reference[0]) < BOUND
    assert test.meta["refinement"]["refine"] > 1
    assert test.meta["refinement"]["error"] <= BOUND < test.meta["refinement"]["unrefined"]


# -- which problems are measured -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tino.problem_names())
def test_the_usual_coefficients_are_known_and_no_others(name):
    problem = tino.problem(name)
    assert has_known_accuracy(problem)
    assert has_known_accuracy(tino.problem(name, **{k: v + 8 for k, v in problem.options.items() if type(v) is int}))
    factory, fixed = base._FACTORIES[name]
    for option, value in problem.options.items():
        if isinstance(value, float):
            assert not has_known_accuracy(factory(**{"name": name, **fixed, option: 1.5 * value}))
    assert not has_known_accuracy(dataclasses.replace(problem, name="other"))
    law = sine_gaussian(2.0) if name == "fitting-time" else dataclasses.replace(sine(), formula="other")
    assert not has_known_accuracy(dataclasses.replace(problem, law=law))


def test_a_coefficient_may_be_a_whole_number(monkeypatch):
    usual = tino.problem("duffing")
    usual = dataclasses.replace(usual, options={**usual.options, "power": 3, "flip": False})
    monkeypatch.setattr(refinement, "problem", lambda name: usual)
    assert has_known_accuracy(dataclasses.replace(usual, options={**usual.options, "n_t": 7}))
    for other in ({"power": 5}, {"flip": True}, {"damping": 2.0}):
        assert not has_known_accuracy(dataclasses.replace(usual, options={**usual.options, **other}))


def test_schemes_and_boundaries_are_no_coefficients():
    """The upwind scheme is there to show its error: it must not be refined away."""
    assert has_known_accuracy(tino.problem("advection-reaction", scheme="upwind"))
    assert has_known_accuracy(tino.problem("allen-cahn", boundary="frozen"))


def test_the_paper_s_data_keep_their_file_and_are_not_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(generation, "find_refinement", None)
    path = tino.generate(tino.problem("burgers-0.1", n_t=24, resolution=24), 0, 5, 3, tmp_path, show_progress=False)
    assert path is not None
    assert path.name == "burgers-0.1-5+3-seed0-7b7fb8991c.h5"
    assert not {"refinement", "error_bound"} & set(read_record(path))


# -- a user's own equations ------------------------------------------------------------------------------------


@pytest.fixture
def own(monkeypatch):
    """A registered problem with the error coarse(refine), added to u = t."""
    monkeypatch.setattr(base, "_FACTORIES", dict(base._FACTORIES))

    def make(coarse) -> tino.Problem:
        def factory(name: str) -> tino.Problem:
            def evolution(forcing, times, state, refine, tick):
                u = (times + coarse(refine)).expand(forcing.batch, -1)[..., None]
                return u, u[:, -1]

            return dataclasses.replace(tino.problem("duffing", n_t=8), name=name, evolution=evolution, options={})

        register("own")(factory)
        return tino.problem("own")

    return make


def test_a_fine_solver_is_kept_without_a_word(own, tmp_path):
    train, _ = tino.dataset(own(lambda refine: 1e-5 / refine**4), 0, 2, 1, tmp_path, show_progress=False)
    assert train.meta["refinement"]["refine"] == 1


@pytest.mark.parametrize(
    ("coarse", "refine"),
    [(lambda r: 2e-2 / r**4, 4), (lambda r: 1e-3 / r**4, 2), (lambda r: float("nan") if r == 1 else 0.0, 2)],
)
def test_the_first_factor_that_suffices_is_taken(own, coarse, refine, tmp_path):
    problem = own(coarse)
    errors = [
        relative(problem.solve(forcing, r), problem.solve(forcing, r + 1))
        for forcing in [problem.law.sample(0, 0, range(1))]
        for r in range(1, refine + 1)
    ]
    assert [error <= BOUND for error in errors] == [False] * (refine - 1) + [True]
    with pytest.warns(tino.TinoWarning, match=f"own: solved with {refine}x the points and steps"):
        train, _ = tino.dataset(problem, 0, 2, 1, tmp_path, show_progress=False)
    assert train.meta["refinement"]["error"] == pytest.approx(errors[-1])
    assert torch.equal(train.u[..., 0], (problem.time.points + coarse(refine)).float().expand(2, -1))


def test_what_no_refinement_mends_is_said_each_time(own, tmp_path):
    problem = own(lambda refine: 0.1 * (-1) ** refine)
    for _ in range(2):  # generated, then read from the cache
        with pytest.warns(tino.TinoWarning, match=r"own: off by .e-02 \(relative L2\) even with 4x the points"):
            tino.dataset(problem, 0, 2, 1, tmp_path, show_progress=False)


def test_the_progress_of_the_choice_adds_up():
    told = []
    found = find_refinement(tino.problem("duffing", n_t=20, damping=0.5), advance=told.append)
    assert found.refine == 1
    assert sum(told) == pytest.approx(1 + 2)  # two solutions, the second of twice the steps
    assert min(told) > 0


def test_finer_solutions_count_by_what_they_cost():
    """In the plane, k times the points and steps cost k³; the last tick is no leap."""
    told = []
    problem = tino.problem("navier-stokes", n_t=6, resolution=8, nu=1e-2)
    find_refinement(problem, advance=told.append)
    assert sum(told) == pytest.approx(1 + 8)
    assert told == pytest.approx([1 / 6] * 6 + [8 / 6] * 6)
    assert work(problem) == 1 + 8 + 27 + 64 + 125


def test_shards_share_one_choice(own, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(
        generation, "find_refinement", lambda *given: calls.append(1) or refinement.Refinement(1, 0.0, 0.0)
    )
    problem = own(lambda refine: 0.0)
    parts = [tino.generate(problem, 0, 2, 1, tmp_path, show_progress=False, shard=(i, 2)) for i in (1, 2)]
    assert parts[0] is None
    assert parts[1] is not None
    assert len(calls) == 1
    assert [path.name for path in tmp_path.iterdir()] == [parts[1].name]


@pytest.mark.parametrize("record", [None, [], {"refine": 1}, {"refine": "x", "error": 0.0, "unrefined": 0.0}])
def test_a_damaged_choice_is_one_line(own, record, tmp_path):
    problem = own(lambda refine: 0.0)
    assert tino.generate(problem, 0, 2, 1, tmp_path, show_progress=False, shard=(1, 2)) is None
    (folder,) = tmp_path.iterdir()
    (folder / "refinement.json").write_text(json.dumps(record))
    with pytest.raises(tino.TinoError, match=r"refinement\.json has a damaged record"):
        tino.generate(problem, 0, 2, 1, tmp_path, show_progress=False)
