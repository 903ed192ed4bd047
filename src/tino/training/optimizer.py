"""The optimiser of a config, and its learning rate."""

import torch

from tino.training.config import TrainConfig


def make_optimizer(config: TrainConfig, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """The optimiser of that name; on a GPU Adam's rate is stored there, so that a captured step can read it."""
    rate: float | torch.Tensor = config.rate
    if config.optimizer in ("adam", "adamw"):
        on_gpu = parameters[0].is_cuda
        if on_gpu:
            rate = torch.tensor(config.rate, device=parameters[0].device)
        decay = config.weight_decay if config.optimizer == "adamw" else 0.0
        return torch.optim.AdamW(parameters, lr=rate, weight_decay=decay, fused=True, capturable=on_gpu)
    from pytorch_optimizer import SOAP  # imported here, so that everything else runs without it

    return SOAP(
        parameters,
        lr=config.rate,
        betas=(0.95, 0.95),
        weight_decay=config.weight_decay,
        precondition_frequency=10,
        max_precondition_dim=256,  # wider sides have no factor: it would cost more than the step
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
