"""The Fourier neural operator on space-time, time being one of its one to four dimensions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from tino.data import Dataset
from tino.frame import Frame
from tino.models.on_grid import Border, OnGrid, grid_frame
from tino.operator import Properties
from tino.parts.spacetime import SpaceTime, box_shape
from tino.parts.spectral import PointLinear, SpectralConv


class FourierLayers(OnGrid[Border]):
    """v_{l+1} = σ(W_l v_l + c_l + F⁻¹(R_l · F v_l)) on the channels of the border, between two maps at each point.

    ``padding`` zeros follow the end of each axis, which need not be periodic.
    """

    def __init__(self, frame: Frame, sizes: dict[str, Any], border: Border, padding: Sequence[int]) -> None:
        super().__init__(frame, sizes, border)
        self.padding = tuple(padding)
        width, layers, projection = (sizes[name] for name in ("width", "layers", "projection"))
        shape = tuple(n + zeros for n, zeros in zip(border.shape, padding, strict=True))
        self.lift = PointLinear(border.channels, width)
        self.spectral = nn.ModuleList(SpectralConv(width, shape, tuple(sizes["modes"])) for _ in range(layers))
        self.local = nn.ModuleList(PointLinear(width, width) for _ in range(layers))
        self.project = nn.Sequential(PointLinear(width, projection), nn.GELU(), PointLinear(projection, border.outputs))

    def through(self, v: Tensor) -> Tensor:
        """(b, channels, *shape) -> (b, outputs, *shape)."""
        shape = v.shape[2:]
        v = nn.functional.pad(self.lift(v), [side for zeros in reversed(self.padding) for side in (0, zeros)])
        for i, (spectral, local) in enumerate(zip(self.spectral, self.local, strict=True)):
            v = spectral(v) + local(v)
            v = nn.functional.gelu(v) if i < len(self.local) - 1 else v
        return self.project(v[(..., *[slice(n) for n in shape])])


class Fno(FourierLayers[SpaceTime]):
    """The layers on the channels (f, ic, t, x); ``padding`` zeros follow the last time, which is not periodic."""

    def __init__(
        self,
        frame: Frame,
        *,
        width: int,
        modes: Sequence[int],
        layers: int,
        projection: int,
        padding: int,
        clock: bool,
    ) -> None:
        sizes: dict[str, Any] = {"width": width, "modes": list(modes), "layers": layers, "projection": projection}
        sizes |= {"padding": padding, "clock": clock}
        border = SpaceTime(frame, clock)
        super().__init__(frame, sizes, border, (padding, *[0] * len(border.space)))

    @property
    def properties(self) -> Properties:
        return Properties(causal=False, reasons=("its Fourier modes of time see the whole record",))

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        """f (b, t, m), ic (b, x) -> u (b, t, x)."""
        self.check_shapes(f, ic)
        return self.border.decode(self.through(self.border.encode(f, ic)))


@dataclass(frozen=True)
class FnoBuilder:
    """The paper's sizes (tab:fno_settings) by default."""

    width: int | None = None  # 64 for time only, 20 with space
    modes: int | None = None  # along each axis: 16 for time only, 12 with space
    layers: int = 4
    projection: int = 128
    padding: int = 9
    clock: bool = True

    def __call__(self, name: str, train: Dataset) -> Fno:
        frame = grid_frame(name, train)
        axes = 1 + len(box_shape(frame.outputs))
        width, modes = self.width or (64 if axes == 1 else 20), self.modes or (16 if axes == 1 else 12)
        sizes = {"layers": self.layers, "projection": self.projection, "padding": self.padding}
        model = Fno(frame, width=width, modes=(modes,) * axes, clock=self.clock, **sizes)
        model.border.fit(train)
        return model
