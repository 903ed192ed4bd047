"""The registered problems: importing a family's file enrols its problems, in the paper's order."""

from tino.problems import fitting as fitting, oscillators as oscillators, burgers as burgers  # isort: skip
from tino.problems.base import Problem, problem, problem_names, register

__all__ = ["Problem", "problem", "problem_names", "register"]
