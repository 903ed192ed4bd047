"""What a part of a model is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tino.errors import TinoError, in_short, whole
from tino.properties import POINTWISE, Properties

# loops run over these; everything else is the size of a tensor
MOST = {"layers": 100, "levels": 20, "degree": 20, "moments": 100, "n": 10_000}


class Part(nn.Module, ABC):
    """A module that declares its properties, and the sizes it was made with."""

    kind: ClassVar[str]
    properties: Properties = POINTWISE

    @abstractmethod
    def __init__(self, **sizes: Any) -> None:
        check_sizes(self, sizes)
        super().__init__()
        self.sizes = sizes

    def record(self) -> dict[str, Any]:
        """Its kind and sizes, as plain JSON values."""
        return {"kind": self.kind, **self.sizes}


def check_sizes(made: object, sizes: Mapping[str, Any]) -> None:
    """Whole numbers, or true or false where the constructor says so: a record from disk may hold anything."""
    hints = type(made).__init__.__annotations__
    for name, value in sizes.items():
        for one in value if isinstance(value, list) else [value]:
            if hints.get(name) is not bool:
                whole(name, one, 0, MOST.get(name) or 2**31)
            elif not isinstance(one, bool):
                raise TinoError(f"{name} is {in_short(repr(one), 40)}, expected true or false")


class FromGrid(nn.Module, ABC):
    """A module with buffers computed from grids, in float64.

    They are computed again after every cast, so that a float64 model never sees values rounded to float32.
    """

    @abstractmethod
    def computed(self) -> dict[str, Tensor]:
        """The buffers by name, in float64."""

    def register_computed(self) -> None:
        for name, value in self.computed().items():
            self.register_buffer(name, value.to(torch.get_default_dtype()), persistent=False)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        for name, value in self.computed().items():
            setattr(self, name, value.to(getattr(self, name)))
        return self
