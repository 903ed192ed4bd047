"""The problems. Importing a file registers its problems; the imports follow the paper's order."""

# isort: off
from tino.problems import fitting as fitting
from tino.problems import oscillators as oscillators
from tino.problems import lines as lines
from tino.problems import periodic as periodic
from tino.problems import heat as heat
from tino.problems import advection as advection

# isort: on
from tino.problems.base import Problem, Windows, problem, problem_names, register
from tino.problems.invariance import Invariance, measure_invariance

__all__ = ["Invariance", "Problem", "Windows", "measure_invariance", "problem", "problem_names", "register"]
