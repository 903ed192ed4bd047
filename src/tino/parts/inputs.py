"""Scaling to one size: sensors, initial states, and the channels of the outputs.

Inputs are never shifted: with nothing acting on the system, f = 0 must stay z = 0.
"""

import torch
from torch import Tensor, nn

from tino.channels import channel_sizes
from tino.data import Dataset
from tino.parts.part import Part
from tino.pod import Pod


class Sensors(Part):
    """z = f P: the inputs scaled to one size, with or without projection on the POD of the training inputs.

    ``left`` is the relative L2 error of the training inputs on that POD: what the projection loses.
    """

    kind = "sensors"
    matrix: Tensor
    left: Tensor

    def __init__(self, points: int, used: int, channels: int) -> None:
        super().__init__(points=points, used=used, channels=channels)
        self.projects = used != points
        one = () if channels == 1 else (points,)  # one factor for all, or one per channel
        self.register_buffer("matrix", torch.ones((points, used) if self.projects else one))
        self.register_buffer("left", torch.zeros(()))

    def forward(self, f: Tensor) -> Tensor:
        return f @ self.matrix if self.projects else f * self.matrix

    def fit(self, train: Dataset, pod: Pod | None, input_sum: float) -> float:
        """Scale each channel to one size, and all so that a sample sums to ``input_sum`` -> a sample's L2 norm."""
        weights = input_weights(train)
        f = train.f if train.mask is None else train.f * train.mask[..., None]
        f = f if weights is None else f * weights.to(f)
        seen = f if pod is None else f @ pod.modes.T.to(f)
        scale, norm = first_layer_scale(seen, input_sum)
        if pod is None:
            self.matrix.copy_(torch.as_tensor(scale) if weights is None else scale * weights)
        else:
            modes = pod.modes.T if weights is None else weights[:, None] * pod.modes.T
            self.matrix.copy_(scale * modes)
            self.left.fill_(pod.left)
        return norm


def input_weights(data: Dataset) -> Tensor | None:
    """1 / size of each number's channel, (m,); None for a single channel."""
    return _weights(data.f, len(data.input_channels), data.mask)


def output_weights(data: Dataset) -> Tensor | None:
    return _weights(data.u, len(data.output_channels), data.mask)


def _weights(values: Tensor, channels: int, mask: Tensor | None) -> Tensor | None:
    if channels == 1:
        return None
    return (1 / channel_sizes(values, channels, mask)).repeat_interleave(values.shape[-1] // channels)


def first_layer_scale(values: Tensor, input_sum: float) -> tuple[float, float]:
    """The factor for a first layer's inputs with which a sample sums to ``input_sum`` on average, and the L2 norm that
    a sample then has."""
    scale = input_sum / (float(torch.linalg.vector_norm(values, 1, dtype=torch.float64)) / len(values))
    return scale, scale * float(torch.linalg.vector_norm(values, dtype=torch.float64)) / len(values) ** 0.5


class InitialState(Part):
    """What an initial state adds to the mixer's output: a linear map of it, each channel scaled to one size."""

    kind = "initial state"
    scale: Tensor

    def __init__(self, numbers: int, width: int, channels: int) -> None:
        super().__init__(numbers=numbers, width=width, channels=channels)
        self.linear = nn.Linear(numbers, width, bias=False)
        self.register_buffer("scale", torch.ones(() if channels == 1 else numbers))

    def forward(self, ic: Tensor) -> Tensor:
        return self.linear(ic * self.scale)

    def fit(self, ic: Tensor, input_sum: float, size: float) -> None:
        if ic.any():
            weights = _weights(ic[:, None], self.sizes["channels"], None)
            scale, norm = first_layer_scale(ic if weights is None else ic * weights.to(ic), input_sum)
            self.linear.weight.mul_(size / (norm * self.linear.weight.std()))
            self.scale.copy_(torch.as_tensor(scale) if weights is None else scale * weights)


class OutputScale(Part):
    """The size of each channel of several: the model works with outputs divided by it."""

    kind = "output scale"
    size: Tensor

    def __init__(self, points: int) -> None:
        super().__init__(points=points)
        self.register_buffer("size", torch.ones(points))

    def fit(self, weights: Tensor) -> None:
        self.size.copy_(1 / weights)
