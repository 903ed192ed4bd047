"""What a training step minimises: the MSE of the field, or its equal in the far fewer coefficients of a POD basis."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tino.data import Dataset
from tino.models.bases import Trunk
from tino.models.operator import call
from tino.models.separable import Separable

PART = 50  # samples turned into coefficients at a time
RESIDENT = 0.5  # of a GPU's free memory: data beyond it stay where they are and travel batch by batch


class Objective(nn.Module):
    """The mean squared difference of a model's output for chosen samples and times from the target there.

    That mean times ``weight``, plus ``constant``, is the MSE of the field. What a step compares is computed once
    (inputs on the POD of the sensors, targets on an orthonormal basis), and lies on the device where it fits.
    """

    def __init__(self, model: nn.Module, data: Dataset, device: torch.device) -> None:
        super().__init__()
        self.model, self.device = model, torch.empty(0, device=device).device  # cuda is cuda:0, and so on
        self.dtype = next((p.dtype for p in model.parameters()), data.f.dtype)
        self.weight, self.constant = 1.0, 0.0
        family = isinstance(model, Separable)
        with torch.no_grad():
            f = self._prepare(data.f, model.sensors if family and model.sensors.projects else None)
            self.scaled = family and not model.sensors.projects  # a mere factor is applied in the step
            u = data.u
            if family and not isinstance(model.basis, Trunk):
                u = self._prepare(data.u, model.basis.project)
                self.weight = u.numel() / data.u.numel()
                self.constant = self._left(data.u, u, model)
            self.inputs, self.target, self.ic = self._settle(f), self._settle(u), None
            if data.ic is not None:
                self.ic = data.ic.to(device, self.dtype)
            squares = sum(float(part.double().square().sum()) for part in self.target.split(PART))
        # a loss of order one keeps the optimisers' eps small
        self.scale = self.target.numel() / squares if squares > 0 else 1.0
        self.n_t = self.target.shape[1]
        self.on_device = self.inputs.device == self.target.device == self.device

    def _prepare(self, values: Tensor, change: Callable[[Tensor], Tensor] | None) -> Tensor:
        if change is None:
            return values
        return torch.cat([change(part.to(self.device, self.dtype)) for part in values.split(PART)])

    def _left(self, u: Tensor, c: Tensor, model: Separable) -> float:
        """The MSE that the best coefficients leave."""
        parts = zip(u.split(PART), c.split(PART), strict=True)
        squares = (
            (part.to(self.device, self.dtype) - model.basis.expand(best)).double().square().sum()
            for part, best in parts
        )
        return float(torch.stack(list(squares)).sum()) / u.numel()

    def _settle(self, values: Tensor) -> Tensor:
        """On the device, unless a GPU is too full for it."""
        if self.device.type == "cuda" and not values.is_cuda:
            size = values.numel() * torch.empty((), dtype=self.dtype).element_size()
            if size > RESIDENT * torch.cuda.mem_get_info(self.device)[0]:
                return values
        return values.to(self.device, self.dtype)

    def _take(self, values: Tensor, index: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        if values.device == self.device:
            return values[index]
        moved = tuple(i.to(values.device) for i in index) if isinstance(index, tuple) else index.to(values.device)
        return values[moved].to(self.device, self.dtype)

    def forward(self, samples: Tensor, times: Tensor | None) -> Tensor:
        """The loss of samples (b,) at times (s,), or at all of them."""
        inputs = self._take(self.inputs, samples)
        ic = None if self.ic is None else self.ic[samples]
        target = self._take(self.target, samples if times is None else (samples[:, None], times[None]))
        return (self.output(inputs, ic, times) - target).square().mean()

    def output(self, inputs: Tensor, ic: Tensor | None, times: Tensor | None) -> Tensor:
        model = self.model
        if not isinstance(model, Separable):
            return call(model, inputs, ic)[:, _all(times)]
        z = model.sensors(inputs) if self.scaled else inputs
        c = model.coefficients(z, ic, times)
        return model.basis.expand(c, _all(times)) if isinstance(model.basis, Trunk) else c


def _all(times: Tensor | None) -> Tensor | slice:
    return slice(None) if times is None else times
