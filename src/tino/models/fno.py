"""The Fourier neural operator on space-time, time being one of its one to four dimensions."""

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor, nn

from tino.data import Dataset
from tino.layers.spectral import PointLinear, SpectralConv
from tino.models.operator import Frame, Operator
from tino.models.spacetime import SpaceTime, grid_frame

LAYERS = 4
PROJECTION = 128
PADDING = 9  # zeros after the last time: time is not periodic
WIDTHS = {1: 64, 2: 20, 3: 20, 4: 20}  # by dimension, as in the paper's table tab:fno_settings
MODES = {1: 16, 2: 12, 3: 12, 4: 12}


@dataclass(frozen=True)
class FnoSpec:
    """Channels, and kept modes along time and each axis of space."""

    width: int
    modes: tuple[int, ...]


class Fno(Operator):
    """v_{l+1} = σ(W_l v_l + c_l + F⁻¹(R_l · F v_l)), four layers, on the channels (f, ic, t, x)."""

    def __init__(self, frame: Frame, spec: FnoSpec) -> None:
        super().__init__()
        self.frame, self.spec = frame, spec
        self.border = SpaceTime(frame)
        n_t, *shape = self.border.shape
        self.lift = PointLinear(self.border.channels, spec.width)
        self.spectral = nn.ModuleList(
            SpectralConv(spec.width, (n_t + PADDING, *shape), spec.modes) for _ in range(LAYERS)
        )
        self.local = nn.ModuleList(PointLinear(spec.width, spec.width) for _ in range(LAYERS))
        self.project = nn.Sequential(PointLinear(spec.width, PROJECTION), nn.GELU(), PointLinear(PROJECTION, 1))

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        """f (b, t, m), ic (b, m) -> u (b, t, m)."""
        self.check_shapes(f, ic)
        n_t = f.shape[1]
        v = self.lift(self.border.encode(f, ic))  # (b, c, t, ...)
        v = nn.functional.pad(v, [0, 0] * (v.ndim - 3) + [0, PADDING])
        for i, (spectral, local) in enumerate(zip(self.spectral, self.local, strict=True)):
            v = spectral(v) + local(v)
            v = nn.functional.gelu(v) if i < LAYERS - 1 else v
        return self.border.decode(self.project(v[:, :, :n_t])[:, 0])

    def record(self) -> dict[str, Any]:
        return {"family": "fno", **self.frame.record(), **asdict(self.spec)}

    def normalisation(self) -> dict[str, Any]:
        return {"input_scale": float(self.border.scale_in), "output_scale": float(self.border.scale_out)}


def build_fno(name: str, train: Dataset) -> Fno:
    """An FNO of the paper's width and modes for the dataset's dimension."""
    frame = grid_frame(name, train)
    dimensions = len(SpaceTime(frame).shape)
    model = Fno(frame, FnoSpec(WIDTHS[dimensions], (MODES[dimensions],) * dimensions))
    model.border.fit_scales(train)
    return model
