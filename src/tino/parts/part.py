"""What a part of a model is."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tino.operator import POINTWISE, Properties


class Part(nn.Module, ABC):
    """A module that declares its properties, and the sizes it was made with."""

    kind: ClassVar[str]
    properties: Properties = POINTWISE

    @abstractmethod
    def __init__(self, **sizes: Any) -> None:
        super().__init__()
        self.sizes = sizes

    def record(self) -> dict[str, Any]:
        """Its kind and sizes, as plain JSON values."""
        return {"kind": self.kind, **self.sizes}


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
