"""Recurrent networks: LSTM and GRU, what many would try first on measured records."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from tino.channels import channel_sizes
from tino.data import Dataset
from tino.errors import TinoError
from tino.frame import Frame
from tino.operator import Operator
from tino.properties import Properties

Memory = tuple[Tensor, ...]  # h (b, layers, width), and of an LSTM c
KINDS: dict[str, type[nn.LSTM | nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
REASON = "its gates have biases, so it moves without input"


class Recurrent(Operator):
    """h_i = cell(h_{i-1}, f_i), u_i = W h_i + b; inputs and outputs are scaled to size one, channel by channel.

    Before the first input h is zero, or a linear map of the initial state.
    """

    input_sizes: Tensor
    output_sizes: Tensor
    state_sizes: Tensor

    def __init__(self, frame: Frame, cell: str, width: int, layers: int) -> None:
        super().__init__()
        self.frame = frame
        self._sizes = {"cell": cell, "width": width, "layers": layers}
        self.cells = KINDS[cell](frame.input_size, width, layers, batch_first=True)
        self.last = nn.Linear(width, frame.output_size)
        self.initial = nn.Linear(frame.state, layers * width) if frame.state else None
        for name, size in (("input", frame.input_size), ("output", frame.output_size), ("state", frame.state)):
            self.register_buffer(f"{name}_sizes", torch.ones(size))

    # -- the whole record, and step by step ------------------------------------------------------------------

    def rest(self, b: int, ic: Tensor | None) -> Memory:
        shape = (b, self._sizes["layers"], self._sizes["width"])
        h = self.last.weight.new_zeros(shape)
        if self.initial is not None and ic is not None:
            h = self.initial(ic / self.state_sizes).view(shape)
        return (h, torch.zeros_like(h)) if self._sizes["cell"] == "lstm" else (h,)

    def forward(self, f: Tensor, ic: Tensor | None = None) -> Tensor:
        self.check_shapes(f, ic)
        start = [part.transpose(0, 1).contiguous() for part in self.rest(len(f), ic)]
        h, _ = self.cells(f / self.input_sizes, tuple(start) if len(start) > 1 else start[0])
        return self.last(h) * self.output_sizes

    def _step(self, memory: Memory, f_i: Tensor, i: int | Tensor) -> tuple[Memory, Tensor]:
        """One step, its products written out, so that an export holds nothing but them."""
        z, after = f_i / self.input_sizes, []
        for layer in range(self._sizes["layers"]):
            after.append(self._cell(layer, z, *(part[:, layer] for part in memory)))
            z = after[-1][0]
        memory = tuple(torch.stack(parts, 1) for parts in zip(*after, strict=True))
        return memory, self.last(z) * self.output_sizes

    def _cell(self, layer: int, z: Tensor, h: Tensor, *c: Tensor) -> Memory:
        """LSTM: c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c'). GRU: h' = (1 - σ(z)) tanh(n + σ(r) m) + σ(z) h."""
        names = (f"weight_ih_l{layer}", f"bias_ih_l{layer}", f"weight_hh_l{layer}", f"bias_hh_l{layer}")
        to_z, bias_z, to_h, bias_h = (getattr(self.cells, name) for name in names)
        new, old = nn.functional.linear(z, to_z, bias_z), nn.functional.linear(h, to_h, bias_h)
        if c:
            i, f, g, o = (new + old).chunk(4, -1)
            now = torch.sigmoid(f) * c[0] + torch.sigmoid(i) * torch.tanh(g)
            return torch.sigmoid(o) * torch.tanh(now), now
        (r, u, n), (r_h, u_h, n_h) = new.chunk(3, -1), old.chunk(3, -1)
        update, fresh = torch.sigmoid(u + u_h), torch.tanh(n + torch.sigmoid(r + r_h) * n_h)
        return ((1 - update) * fresh + update * h,)

    # -- what it is, how it learns, its record ----------------------------------------------------------------

    @property
    def properties(self) -> Properties:
        return Properties(True, True, False, (REASON,))

    def normalised(self, u: Tensor) -> Tensor:
        return u / self.output_sizes

    def fit_scales(self, train: Dataset) -> None:
        with torch.no_grad():
            self.input_sizes.copy_(_sizes(train.f, train.input_channels, train.inputs.size, train.mask))
            self.output_sizes.copy_(_sizes(train.u, train.output_channels, train.outputs.size, train.mask))
            if train.ic is not None:
                sizes = train.ic.double().square().mean(0).sqrt()
                self.state_sizes.copy_(torch.where(sizes > 0, sizes, 1.0))

    def record(self) -> dict[str, Any]:
        return dict(self._sizes)

    @classmethod
    def from_record(cls, frame: Frame, record: Mapping[str, Any]) -> Self:
        return cls(frame, **record)

    def normalisation(self) -> dict[str, Any]:
        return {f"{name}_sizes": getattr(self, f"{name}_sizes").tolist() for name in ("input", "output", "state")}


def _sizes(values: Tensor, channels: Any, points: int, mask: Tensor | None) -> Tensor:
    return channel_sizes(values, len(channels), mask).repeat_interleave(points)


@dataclass(frozen=True)
class RecurrentBuilder:
    """The kind of its cells, and their number."""

    cell: str
    width: int = 64
    layers: int = 1

    def __call__(self, name: str, train: Dataset) -> Recurrent:
        if self.cell not in KINDS:
            raise TinoError(f"cell is '{self.cell}', expected one of {', '.join(KINDS)}")
        model = Recurrent(Frame.of(name, train), self.cell, self.width, self.layers)
        model.fit_scales(train)
        return model
