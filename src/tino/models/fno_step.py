"""The Fourier neural operator on space as a stepper: from u at one time to u at the next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tino.channels import channel_sizes
from tino.data import Dataset
from tino.frame import Frame
from tino.grids import Periodic
from tino.models.fno import FourierLayers
from tino.models.on_grid import field_frame
from tino.operator import Properties, Stretches
from tino.parts.spacetime import Space, box_shape
from tino.parts.start import Start

UNROLLED, SHARE = 8, 0.1  # steps of the second lesson, and its share of the training beside 1 for single steps
PADDING = 9  # fno's

Memory = tuple[Tensor, Tensor]  # u_i (b, x) and f_i (b, m)


class FnoStep(FourierLayers[Space]):
    """u_{i+1} = u_i + s N(u_i, f_i, f_{i+1}, x) from u_0 = u(T_0), N being Fourier layers on space.

    s is the size of u_{i+1} - u_i in the training data, for each channel. ``padding`` zeros follow each axis.
    """

    scale_step: Tensor  # s, (channels,)

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
        zero: bool,
    ) -> None:
        sizes: dict[str, Any] = {"width": width, "modes": list(modes), "layers": layers, "projection": projection}
        sizes |= {"padding": padding, "clock": clock, "zero": zero}
        border = Space(frame, clock)
        super().__init__(frame, sizes, border, [padding] * len(border.space))
        self.register_buffer("scale_step", torch.ones(border.outputs))
        self.start_part = Start(frame.output_size, zero).to(torch.get_default_dtype())
        self.learning = (Stretches(1), Stretches(min(UNROLLED, frame.time.n - 1), share=SHARE))

    @property
    def properties(self) -> Properties:
        clock = ("its network sees t",) if self.border.clock else ()
        network = Properties(True, not self.border.clock, False, (*clock, "its network's biases act without input"))
        return Properties.of_parts([network, self.start_part.properties])

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        """f (b, t, m), ic (b, x) -> u (b, t, x)."""
        return self.by_steps(f, ic)

    def rest(self, b: int, ic: Tensor | None) -> Memory:
        u = self.start_part(b, None if ic is None else self.as_output(ic))
        return u, u.new_zeros(b, self.frame.input_size)

    def _first(self, memory: Memory, f_0: Tensor) -> tuple[Memory, Tensor]:
        u, _ = memory
        return (u, f_0), u

    def restarted(self, memory: Memory) -> Memory:
        return memory[0], torch.zeros_like(memory[1])

    def _step(self, memory: Memory, f_i: Tensor, i: int | Tensor) -> tuple[Memory, Tensor]:
        u, before = memory
        v = self.through(self.border.encode(u, torch.stack([before, f_i], 1), i))
        u = u + self.border.decode(v, self.scale_step)
        return (u, f_i), u

    def observe(self, f: Tensor, u: Tensor) -> Memory:
        return u, f

    def fit_scales(self, train: Dataset) -> None:
        """The sizes of f, of u and of its steps, over the valid times."""
        self.border.fit(train)
        mask = None if train.mask is None else train.mask[:, 1:]
        with torch.no_grad():
            self.scale_step.copy_(channel_sizes(train.u.diff(dim=1), len(self.scale_step), mask))

    def normalisation(self) -> dict[str, Any]:
        return {**super().normalisation(), "step_scale": self.scale_step.tolist()}


@dataclass(frozen=True)
class FnoStepBuilder:
    """The paper's sizes of FNO (tab:fno_settings) by default."""

    width: int = 20
    modes: int = 12  # along each axis
    layers: int = 4
    projection: int = 128
    padding: int | None = None  # zeros after each axis: 9, or none in a periodic box
    clock: bool = False

    def __call__(self, name: str, train: Dataset) -> FnoStep:
        frame, start = field_frame(name, train), Start.of(train)
        padding = self.padding or (0 if isinstance(frame.outputs, Periodic) else PADDING)
        sizes = {"width": self.width, "layers": self.layers, "projection": self.projection, "padding": padding}
        axes = len(box_shape(frame.outputs))
        model = FnoStep(frame, modes=(self.modes,) * axes, clock=self.clock, zero=start.sizes["zero"], **sizes)
        model.start_part.load_state_dict(start.state_dict())
        model.fit_scales(train)
        return model
