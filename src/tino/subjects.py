"""What a certificate examines: an operator with its probes, and the largest numbers that runs have shown."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from tino.calls import call
from tino.channels import split_channels

ROUNDINGS = 64
THIRDS, IN_A_ROW, AGREE = 12, 6, 0.1  # kicks, each a third of the one before; how often, how well outputs shrink alike
MARGIN = 16  # one draw of noise does not show how far outputs can move
SAMPLES = 4  # inputs taken from the data; as many again are noise


def rounding(u: Tensor) -> Tensor:
    return ROUNDINGS * torch.finfo(u.dtype).eps * u


@dataclass
class Worst:
    """The largest number of one kind, at which size of input, and whether the property holds."""

    number: float = 0.0
    size: float = 1.0
    holds: bool = True

    def take(
        self,
        change: Tensor,
        effect: Tensor,
        u: Tensor,
        size: float,
        tolerance: float,
        moves: Callable[[], Tensor] | None = None,
    ) -> None:
        """Largest |change|, |effect| and |u| of each channel, (..., c); u and ``moves`` say how large rounding is.

        ``moves`` takes two runs of the model and can only raise the rounding, so it is asked last.
        """
        known = rounding(u)
        if self._rank(change, effect, u, size, tolerance, known) >= self._best:
            return
        if moves is not None and bool((change > tolerance * effect + known).any()):
            known = torch.maximum(known, MARGIN * moves())
        rank = self._rank(change, effect, u, size, tolerance, known)
        if rank < self._best:
            self.holds, self.size, self.number = rank[0], size, -rank[2]

    @staticmethod
    def _rank(
        change: Tensor, effect: Tensor, u: Tensor, size: float, tolerance: float, rounding: Tensor
    ) -> tuple[bool, bool, float]:
        """Less is worse: a failure comes before a number that holds, one at the size of the data before others."""
        scale = torch.where((change <= rounding) | (effect == 0), torch.maximum(effect, u), effect)
        number = float(torch.where(change == 0, 0.0, change / scale).max())
        holds = bool((change <= tolerance * effect + rounding).all())
        return holds, not holds and size != 1, -number

    @property
    def _best(self) -> tuple[bool, bool, float]:
        return self.holds, not self.holds and self.size != 1, -self.number


@dataclass
class Found:
    """What the runs showed; the sizes and cuts are those that were measured."""

    leak: Worst = field(default_factory=Worst)
    defect: Worst = field(default_factory=Worst)
    drift: Worst = field(default_factory=Worst)
    clock: Worst | None = None
    mismatch: Worst | None = None
    cuts: set[int] = field(default_factory=set)
    kicks: int = 0
    sizes: set[float] = field(default_factory=set)
    overflows: set[float] = field(default_factory=set)


@dataclass
class Subject:
    """An operator with its probes f (p, t, m) and, row by row, their initial states."""

    operator: nn.Module
    f: Tensor
    ic: Tensor | None
    largest: Tensor  # (m,) of each number's channel
    outputs: int  # channels
    tolerance: float
    generator: torch.Generator
    at: torch.device
    advance: Callable[..., None]
    together: int = 2 * SAMPLES  # records in one call
    slow: bool = False
    ends: float = float("inf")  # when a slow operator is examined no further than it must
    usual: Tensor = field(default_factory=lambda: torch.ones(()))  # the largest |u| of each channel at size 1, (c,)
    silence: Tensor = field(
        default_factory=lambda: torch.zeros(())
    )  # the outputs without input, of all rows or of each
    effect: dict[float, Tensor] = field(default_factory=dict)  # of the input on each channel, by size

    def __call__(self, f: Tensor, ic: Tensor | None) -> Tensor:
        parts = []
        for rows in torch.arange(len(f)).split(self.together):
            part = call(self.operator, f[rows].to(self.at), None if ic is None else ic[rows].to(self.at))
            parts.append(part.cpu())
        return torch.cat(parts)

    def largest_of(self, values: Tensor) -> Tensor:
        """(b, t, c x) -> (b, c)."""
        return split_channels(values, self.outputs).abs().amax((1, 3))

    def moves(self, f: Tensor, ic: Tensor | None, later: Tensor | None = None) -> Tensor:
        """How far outputs move, (c,), if the inputs (b, t, m) move by 4096 ε of the largest; not at later times."""
        eps = torch.finfo(f.dtype).eps
        noise = torch.randn(f.shape, generator=self.generator, dtype=f.dtype)
        largest = self.largest * (f / self.largest).nan_to_num(0.0, 0.0, 0.0).abs().amax()  # (m,) here
        moved = (self(f + 4096 * eps * largest * noise, ic) - self(f, ic)).nan_to_num(0.0)
        return self.largest_of(moved if later is None else moved.masked_fill(later, 0.0)).amax(0)

    def follow(self, f: Tensor, kicked: Tensor, ic: Tensor | None, later: Tensor) -> Tensor:
        """Whether the outputs before the later times shrink with the kick of (1, t, m), (c,): rounding does not.

        It would by halves: numbers that are halved round alike.
        """
        scales = 3.0 ** -torch.arange(THIRDS, dtype=f.dtype)
        kicks = torch.cat([f, f + scales[:, None, None] * (kicked - f)])
        answers = self(kicks, None if ic is None else ic.expand(len(kicks), -1))
        change = (answers[1:] - answers[:1]).masked_fill(later, 0.0)
        size, off = self.largest_of(change[:-1]), self.largest_of(change[:-1] - 3 * change[1:])
        return ((off <= AGREE * size) & (size > 0)).unfold(0, IN_A_ROW, 1).all(-1).any(0)

    @property
    def late(self) -> bool:
        return self.slow and time.perf_counter() > self.ends

    def noise(self, *shape: int) -> Tensor:
        return self.largest * torch.randn(*shape, generator=self.generator, dtype=self.f.dtype)

    def up_to(self, count: int) -> int:
        return int(torch.randint(count, (), generator=self.generator))
