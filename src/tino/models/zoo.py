"""The registered models, one entry each: the networks on the grid, and the DeepONet family."""

from functools import partial

from tino.models.closed import ClosedForm
from tino.models.equations import Equation
from tino.models.family import Family
from tino.models.flow import Flow, Plan
from tino.models.fno import Fno, FnoBuilder
from tino.models.fno_step import FnoStep, FnoStepBuilder
from tino.models.learned import Learned
from tino.models.recurrent import Recurrent, RecurrentBuilder
from tino.models.registry import Model, Suits, register_model
from tino.models.separable import Separable
from tino.models.simulated import Simulated
from tino.models.unet import Unet, UnetBuilder
from tino.parts.bases import Constant, PodModes, Trunk
from tino.parts.mixers import DelayMixer, GlobalMixer, LateMixer, MaskedMixer

ONE_GRID = tuple(Suits(space, causal=False, one_grid=True) for space in (True, False))
TWO_GRIDS = tuple(Suits(space, causal=False, one_grid=False) for space in (True, False))

register_model("fno", Model(Fno, FnoBuilder(), "Fourier neural operator", "section FNO", suits=ONE_GRID))
register_model("unet", Model(Unet, UnetBuilder(), "U-Net on space-time", "section Numerical Tests"))
register_model("fno-step", Model(FnoStep, FnoStepBuilder(), "FNO on space, one step of time after another"))
register_model("fno-step-clock", Model(FnoStep, FnoStepBuilder(clock=True), "the same, with a network that sees t"))

register_model(
    "lstm", Model(Recurrent, RecurrentBuilder("lstm"), "long short-term memory, a recurrent network", races=True)
)
register_model(
    "gru", Model(Recurrent, RecurrentBuilder("gru"), "gated recurrent unit, a recurrent network", races=True)
)


def _family(name: str, built: Family, title: str, equation: str, *suits: Suits) -> None:
    own = built.mixer is DelayMixer  # the paper's own models have a delay
    register_model(name, Model(Separable, built, title, equation, own, suits))


GLOBAL, MASKED = partial(Family, GlobalMixer), partial(Family, MaskedMixer)
DELAY, LATE = (partial(Family, mixer, mixer_width=256) for mixer in (DelayMixer, LateMixer))
# 16 kernels for each of 16 modes: as many as a delay has
_LATE_TRUNK = LATE(Trunk, of_time=True, trunk_layers=1, modes=16)

_family("don", GLOBAL(Trunk, of_time=True), "DeepONet", "eq_deepont")
_family("pod-don", GLOBAL(PodModes, of_time=True), "POD-DeepONet", "eq_pod_deepont", *TWO_GRIDS)
_family("spod-don", GLOBAL(PodModes, time_factor=True), "DeepONet with spatial POD", "eq_spod_don")
_family("tc-don", MASKED(Trunk, of_time=True), "time-causal DeepONet", "eq_TC_DON", Suits(False, autonomous=False))
_family(
    "tc-spod-don",
    MASKED(PodModes, time_factor=True),
    "time-causal DeepONet, spatial POD",
    "eq_TC_SPOD_DON",
    Suits(True, autonomous=False),
)
_family("causality-don", _LATE_TRUNK, "Causality-DeepONet (time-only outputs)", "eq_causality_don")
_family("tdnn", DELAY(Constant), "time-delay neural network (time-only outputs)", "section TDNN")
_family("tino", DELAY(Trunk), "time-invariant neural operator", "eq_TINO_txy", Suits(False))
_family("pod-tino", DELAY(PodModes), "TINO with spatial POD", "section POD-TINO", Suits(True))
_family("trtino", DELAY(Trunk, time_factor=True), "truncated TINO", "eq_TrTINO_txy", Suits(False, at_rest=False))
_family(
    "spod-trtino",
    DELAY(PodModes, time_factor=True),
    "truncated TINO, spatial POD",
    "eq_spod_trtino",
    Suits(True, at_rest=False),
)


def _flow(name: str, plan: Plan, title: str, *suits: Suits) -> None:
    register_model(name, Model(Flow, plan, title, suits=suits, races=True))


ANY, CLOCKED = (tuple(Suits(s, autonomous=a, network=False) for s in (True, False)) for a in (True, False))
WAVES = Suits(True, network=False, waves=True)


_flow("linear", ClosedForm(degree=1), "linear flow, in closed form")
_flow("linear-clock", ClosedForm(degree=1, clock=12), "the same, with coefficients that depend on the time")
_flow("linear-level", ClosedForm(degree=1, levels=True), "the same, with coefficients that follow the input's level")
_flow("polynomial", ClosedForm(), "polynomial flow, in closed form", *ANY)
_flow("polynomial-clock", ClosedForm(clock=12), "the same, with linear terms that depend on the time", *CLOCKED)
_flow("polynomial-sim", Simulated(), "polynomial flow, fitted to simulations of many steps")
_flow("equation", Equation(), "differential equation fitted through its integrator", WAVES)
_flow("flow-tino", Learned(), "closed form or equation, and a network for the rest")
register_model("flow-tino-clock", Model(Flow, Learned(clock=12), "the same, with linear terms that depend on the time"))
