"""Is a problem itself time-invariant? Measured on its own solver, not read off the equation."""

from dataclasses import dataclass

from tino.errors import TinoError
from tino.problems.base import Problem

TOLERANCE = 1e-6  # of the largest response: far above any solver's error, far below a real dependence on time


@dataclass(frozen=True)
class Invariance:
    """Two defects, relative to the largest response.

    shift: G[f delayed by τ](t) against G[f](t - τ), t >= τ. A problem that does not start at rest cannot pass: while
    it waits for the delayed forcing it moves on its own.
    flow: restarting at t_k from the full state there, with the forcing ahead by t_k and the clock at zero, against the
    continuation. Only a problem whose equation depends on the clock fails.
    """

    shift: float
    flow: float

    @property
    def time_invariant(self) -> bool:
        return self.shift <= TOLERANCE

    @property
    def autonomous(self) -> bool:
        return self.flow <= TOLERANCE


def measure_invariance(problem: Problem, samples: int = 2, seed: int = 0) -> Invariance:
    """Both defects for a delay of two fifths of the record.

    A delayed forcing jumps when it sets in. Each solve here ends or begins on the jump, so no step straddles it.
    """
    forcing = problem.law.sample(seed, 0, range(samples))
    times, n = problem.time.points, problem.time.n
    if n < 5:
        raise TinoError(f"measuring time invariance needs 5 times or more, {problem.name} has n_t = {n}")
    k = 2 * n // 5
    u = problem.solve(forcing)
    size = float(u.abs().max())
    _, waited = problem.evolve(forcing.silent(), times[: k + 1])
    delayed, _ = problem.evolve(forcing.ahead(-float(times[k])), times[k:], waited)
    _, reached = problem.evolve(forcing, times[: k + 1])
    restarted, _ = problem.evolve(forcing.ahead(float(times[k])), times[: n - k], reached)
    return Invariance(
        shift=float((delayed - u[:, : n - k]).abs().max()) / size,
        flow=float((restarted - u[:, k:]).abs().max()) / size,
    )
