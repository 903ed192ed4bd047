"""One optimisation step."""

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tino.devices import products
from tino.errors import TinoError
from tino.training import distributed
from tino.training.config import TrainConfig
from tino.training.objective import Objective


class Step:
    """(samples, times) -> the loss of the step just taken, still on the device: nothing here waits for it.

    A batch that does not fit into a GPU's memory is computed in parts, whose gradients add up.
    """

    def __init__(self, objective: Objective, optimizer: torch.optim.Optimizer, config: TrainConfig) -> None:
        self.objective, self.optimizer, self.config = objective, optimizer, config
        self.parameters = [p for p in objective.parameters() if p.requires_grad]
        self.rank, self.size = distributed.rank(), distributed.size()
        self.loss: nn.Module = _compiled(objective) if config.compile else objective
        self.parts = 1  # into which a batch is split

    def __call__(self, samples: Tensor, times: Tensor | None) -> Tensor:
        """Samples (b,) of the whole batch, at times (s,) or at all times; this process takes its share."""
        loss = self.gradients(samples, times)
        self.optimizer.step()
        return loss

    def gradients(self, samples: Tensor, times: Tensor | None) -> Tensor:
        """The loss, with gradients stored in the parameters, computed in as many parts as memory requires."""
        while True:
            try:
                return self.gradients_in_parts(samples, times)
            except torch.OutOfMemoryError as error:
                if self.size > 1:  # the processes would have to agree
                    raise
                if self.parts >= len(samples):
                    raise TinoError("a single sample does not fit into the GPU's memory: use device cpu") from error
            self.optimizer.zero_grad(set_to_none=True)
            self.parts *= 2
            torch.cuda.empty_cache()

    def gradients_in_parts(self, samples: Tensor, times: Tensor | None) -> Tensor:
        mine = samples[self.rank :: self.size]
        factor = self.size * len(mine) / len(samples)  # the mean over processes is the mean over the batch
        mine = mine if len(mine) else samples[:1]
        if self.size > 1 and not isinstance(self.loss, DistributedDataParallel):
            self.loss = self._shared(mine, times)
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=samples.device)
        for part in mine.tensor_split(min(self.parts, len(mine))):
            with products(tf32=self.config.precision == "tf32"):  # only here: SOAP's products need all digits
                with torch.autocast(samples.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16"):
                    loss = self.loss(part, times) * (factor * len(part) / len(mine))
                (loss * self.objective.scale).backward()
            total = total + loss.detach()
        if self.config.clip:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        return total

    def _shared(self, samples: Tensor, times: Tensor | None) -> nn.Module:
        """The loss for several processes, which must know whether some parameters get no gradient."""
        self.loss(samples[:1], times).backward()
        unused = any(p.grad is None for p in self.parameters)
        return DistributedDataParallel(self.loss, broadcast_buffers=False, find_unused_parameters=unused)

    def compile(self, samples: Tensor, times: Tensor | None) -> None:
        """Compile for batches of this size, by computing gradients that no step uses."""
        from torch._dynamo.exc import TorchDynamoException  # here: torch's compiler takes seconds to import

        try:
            self.gradients(samples, times)
        except TorchDynamoException as error:
            reason = str(error).strip().splitlines()[0]
            raise TinoError(f"torch cannot compile the model here: train without compile ({reason})") from error


def _compiled(objective: Objective) -> nn.Module:
    """Compiled from scratch for each training run: torch compiles a function for only a few models."""
    torch.compiler.reset()
    return torch.compile(objective, dynamic=False)  # pyright: ignore
