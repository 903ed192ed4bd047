"""The Fourier neural operator on space-time, time being one of its one to four dimensions."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from tino.data import Dataset
from tino.frame import Frame
from tino.models.on_grid import OnGrid, grid_frame
from tino.operator import Properties
from tino.parts.spacetime import box_shape
from tino.parts.spectral import PointLinear, SpectralConv


class Fno(OnGrid):
    """v_{l+1} = σ(W_l v_l + c_l + F⁻¹(R_l · F v_l)) on the channels (f, ic, t, x).

    ``padding`` zeros follow the last time, which is not periodic.
    """

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
        sizes = {"width": width, "modes": list(modes), "layers": layers, "projection": projection}
        super().__init__(frame, {**sizes, "padding": padding, "clock": clock})
        self.padding = padding
        n_t, *shape = self.border.shape
        self.lift = PointLinear(self.border.channels, width)
        self.spectral = nn.ModuleList(SpectralConv(width, (n_t + padding, *shape), tuple(modes)) for _ in range(layers))
        self.local = nn.ModuleList(PointLinear(width, width) for _ in range(layers))
        self.project = nn.Sequential(
            PointLinear(width, projection), nn.GELU(), PointLinear(projection, self.border.outputs)
        )

    @property
    def properties(self) -> Properties:
        return Properties(causal=False, reasons=("its Fourier modes of time see the whole record",))

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        """f (b, t, m), ic (b, x) -> u (b, t, x)."""
        self.check_shapes(f, ic)
        n_t = f.shape[1]
        v = self.lift(self.border.encode(f, ic))  # (b, c, t, ...)
        v = nn.functional.pad(v, [0, 0] * (v.ndim - 3) + [0, self.padding])
        for i, (spectral, local) in enumerate(zip(self.spectral, self.local, strict=True)):
            v = spectral(v) + local(v)
            v = nn.functional.gelu(v) if i < len(self.local) - 1 else v
        return self.border.decode(self.project(v[:, :, :n_t]))


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
