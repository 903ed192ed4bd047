"""Is a problem itself time-invariant? Measured with its solver, not derived from the equation."""

from dataclasses import dataclass

from tino.errors import TinoError
from tino.problems.base import Problem

TOLERANCE = 1e-6  # relative to the largest response: far above solver errors, far below any real dependence on time


@dataclass(frozen=True)
class Invariance:
    """Two defects, relative to the largest response.

    shift: compares G[f delayed by τ](t) with G[f](t - τ) for t >= τ. A problem that does not start at rest fails,
    because its state changes before the delayed forcing sets in.
    flow: restarts at t_k from the full state there, with the forcing shifted by t_k and the clock at zero, and compares
    with the original solution. Only a problem whose equation depends on time explicitly fails.
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
    """Measure both defects, with a delay of two fifths of the time interval.

    A delayed forcing jumps when it sets in. Every solve here starts or ends at the jump, so no step crosses it.
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
