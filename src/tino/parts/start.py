"""Where a flow starts: the state at T_0."""

import math

import torch
from torch import Tensor, nn

from tino.data import Dataset
from tino.parts.part import Part
from tino.properties import POINTWISE, Properties
from tino.sizes import mean_square

NEAR = 1e-3  # of the spread of u: an initial state that differs by less is u(T_0)
SHARED = 1e-6  # of the size of u: records whose first outputs differ by less start from one state


class Start(Part):
    """u(T_0): ``ic`` where the data give it, else the field that all training records start from.

    ``zero``: that field is 0, so that an operator without input may stay at rest.
    """

    kind = "start"
    value: Tensor

    def __init__(self, size: int, zero: bool) -> None:
        super().__init__(size=size, zero=zero)
        self.properties = POINTWISE if zero else Properties(True, True, False, ("it does not start at zero",))
        self.value = nn.Parameter(torch.zeros(0 if zero else size, dtype=torch.float64), requires_grad=False)

    def forward(self, b: int, ic: Tensor | None) -> Tensor:
        """u_0 (b, x)."""
        if ic is not None:
            return ic
        return self.value.new_zeros(b, self.sizes["size"]) if self.sizes["zero"] else self.value.expand(b, -1)

    @staticmethod
    def of(train: Dataset) -> "Start":
        """The start of these records: 0 where they start there, or from initial states that are given.

        With a burn-in it is not known: 0, or the mean of u if that is farther from 0 than u varies.
        """
        size = math.sqrt(mean_square(train.u))
        if train.burn_in:
            rows = train.rows(train.u).double()
            value = rows.mean(0)
            zero = bool((value.abs() <= rows.std(0)).all())
        else:
            value = train.u[:, 0].double().mean(0)
            zero = train.ic is None and bool((value.abs() <= SHARED * size).all()) and starts_shared(train)
        start = Start(train.output_size, zero)
        if not zero:
            start.value.copy_(value)
        return start


def starts_shared(train: Dataset) -> bool:
    """Whether all records start from one field; with a burn-in nobody asks."""
    if train.burn_in:
        return True
    first, size = train.u[:, 0].double(), math.sqrt(mean_square(train.u))
    return bool(((first - first.mean(0)).abs() <= SHARED * size).all())


def starts_from_ic(train: Dataset) -> bool:
    """Whether ic, if there is one, is u(T_0), but for a constant offset."""
    if train.ic is None or train.ic.shape[1] != train.output_size:
        return train.ic is None
    difference = train.ic.double() - train.u[:, 0].double()
    size = float(train.u.double().std())
    return bool(((difference - difference.mean(0)).abs() <= NEAR * size).all())
