"""Mixers: the first, linear layer of a branch, which decides what each time may see of the input.

Each maps z (b, t, m) to h (b, t, width), or to h at only the chosen ``times`` (s,), (b, s, width); the global one,
whose output does not depend on time, returns (b, 1, width). The causal ones do the same step by step, with a memory.
"""

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tino.operator import Properties
from tino.parts.part import Part

WINDOWS = 2**18  # numbers in the windows of a block, for each record


class Mixer(Part):
    """Weights (times, m, width); ``grid_only``: it is defined only at grid times."""

    grid_only = False
    weight: nn.Parameter

    def __init__(self, n_t: int, m: int, width: int, lags: int, **more: int) -> None:
        super().__init__(n_t=n_t, m=m, width=width, **more)
        self.width = width
        self.weight = nn.Parameter(torch.randn(lags, m, width) * (lags * m) ** -0.5)

    @abstractmethod
    def forward(self, z: Tensor, times: Tensor | None = None) -> Tensor: ...

    def rest(self, b: int) -> Tensor:
        """The memory of b records before their first input; for causal mixers."""
        raise NotImplementedError

    def step(self, memory: Tensor, z_i: Tensor, i: int | Tensor) -> tuple[Tensor, Tensor]:
        """The memory after i inputs and the next one (b, m) -> the new memory, and h_i (b, width)."""
        raise NotImplementedError

    def run(self, memory: Tensor, z: Tensor, i: int) -> tuple[Tensor, Tensor]:
        """The next inputs (b, n, m) -> the new memory, and h (b, n, width)."""
        answers = []
        for n, z_i in enumerate(z.unbind(1)):
            memory, h = self.step(memory, z_i, i + n)
            answers.append(h)
        return memory, torch.stack(answers, 1)

    def scale(self, norm: float, size: float) -> None:
        """Scale the weights so that inputs of this L2 norm give h of this root mean square at the last time."""
        self.weight.mul_(size / (norm * self.weight.std()))


class GlobalMixer(Mixer):
    """h = Σ_k W_k f_k + c, over all times, past and future (eq_deepont)."""

    kind = "global"
    properties = Properties(False, None, None, ("its mixer sees the future",))

    def __init__(self, n_t: int, m: int, width: int) -> None:
        super().__init__(n_t, m, width, n_t)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, z: Tensor, times: Tensor | None = None) -> Tensor:
        return torch.addmm(self.bias, z.flatten(1), self.weight.flatten(0, 1))[:, None]


class MaskedMixer(Mixer):
    """h_i = Σ_{k <= i} W_k f_k + c: a running sum over time of a plain linear layer (eq_TC_DON)."""

    kind = "masked"
    properties = Properties(True, False, True, ("its mixer weights depend on absolute time",))

    def __init__(self, n_t: int, m: int, width: int) -> None:
        super().__init__(n_t, m, width, n_t)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, z: Tensor, times: Tensor | None = None) -> Tensor:
        terms = torch.einsum("btm,tmh->tbh", z, self.weight[: z.shape[1]])
        h = torch.cumsum(terms, dim=0) + self.bias
        return (h if times is None else h[times]).transpose(0, 1)

    def rest(self, b: int) -> Tensor:
        """The running sum, (b, width)."""
        return self.bias.expand(b, -1)

    def step(self, memory: Tensor, z_i: Tensor, i: int | Tensor) -> tuple[Tensor, Tensor]:
        now = self.weight[i] if isinstance(i, int) else self.weight.index_select(0, i.view(1))[0]
        memory = memory + z_i @ now
        return memory, memory


class DelayMixer(Mixer):
    """h_i = Σ_l W_l f_{i-l} + c, with f = 0 before T_0: a causal convolution (eq_TINO_txy).

    Lags run from ``first_lag`` (0; the paper's derivation starts at 1) to n_t - 1. The weights are stored the
    oldest lag first, so that the weights met by f_0 ... f_i are one contiguous block: W_l = weight[-1 - l].
    """

    kind = "delay"
    grid_only = True

    def __init__(self, n_t: int, m: int, width: int, first_lag: int = 0) -> None:
        super().__init__(n_t, m, width, n_t - first_lag, first_lag=first_lag)
        self.first_lag = first_lag
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, z: Tensor, times: Tensor | None = None) -> Tensor:
        return _delay(z, self.weight, times, self.first_lag) + self.bias

    def rest(self, b: int) -> Tensor:
        """The window of the past: zeros, (b, lags + first_lag, m), oldest first."""
        return self.weight.new_zeros(b, len(self.weight) + self.first_lag, self.weight.shape[1])

    def step(self, memory: Tensor, z_i: Tensor, i: int | Tensor) -> tuple[Tensor, Tensor]:
        memory = torch.cat([memory[:, 1:], z_i[:, None]], dim=1)
        return memory, torch.addmm(self.bias, memory[:, : len(self.weight)].flatten(1), self.weight.flatten(0, 1))

    def run(self, memory: Tensor, z: Tensor, i: int) -> tuple[Tensor, Tensor]:
        """Windows of the past side by side, one product for a few times: the weights are read once for all of them."""
        lags, answers = len(self.weight), []
        for part in z.split(max(1, WINDOWS // self.weight[..., 0].numel()), 1):
            met = torch.cat([memory[:, 1:], part], 1)
            memory = met[:, part.shape[1] - 1 :]
            windows = met[:, : lags + part.shape[1] - 1].unfold(1, lags, 1).movedim(-1, -2)  # (b, n, lags, m)
            answers.append(windows.flatten(2) @ self.weight.flatten(0, 1) + self.bias)
        return memory, torch.cat(answers, 1)


class LateMixer(Mixer):
    """h_i = Σ_{k=1}^{i} W_{i-k} f_k: a delay without a bias that never sees f_0 (eq_causality_don).

    Not autonomous: its first step drops the input, later ones do not.
    """

    kind = "late"
    properties = Properties(True, False, True, ("its mixer ignores f(T_0)",))
    grid_only = True

    def __init__(self, n_t: int, m: int, width: int) -> None:
        super().__init__(n_t, m, width, n_t - 1)

    def forward(self, z: Tensor, times: Tensor | None = None) -> Tensor:
        return _delay(torch.cat([torch.zeros_like(z[:, :1]), z[:, 1:]], dim=1), self.weight, times)

    def rest(self, b: int) -> Tensor:
        """The window of the past, (b, lags, m)."""
        return self.weight.new_zeros(b, *self.weight.shape[:2])

    def step(self, memory: Tensor, z_i: Tensor, i: int | Tensor) -> tuple[Tensor, Tensor]:
        memory = torch.cat([memory[:, 1:], z_i[:, None] * (i > 0)], dim=1)
        return memory, memory.flatten(1) @ self.weight.flatten(0, 1)


def _delay(z: Tensor, weight: Tensor, times: Tensor | None, first_lag: int = 0) -> Tensor:
    """Σ_l W_l z_{i-l}: all times by a zero-padded FFT; chosen times by one product each, but on a GPU also by
    the FFT: there it is cheap, and reading the times would make the host wait."""
    if times is not None and z.device.type == "cpu":
        return _DelayAt.apply(z, weight, times.tolist(), first_lag)  # pyright: ignore[reportReturnType]
    t = z.shape[1]
    h = _DelayFft.apply(z[:, : t - first_lag], weight)
    h = nn.functional.pad(h, (0, 0, first_lag, 0)) if first_lag else h  # pyright: ignore[reportArgumentType]
    return h if times is None else h[:, times]  # pyright: ignore


class _DelayFft(torch.autograd.Function):
    """The delay sum at all times: a zero-padded FFT over time, one small product per frequency, and the inverse FFT.

    Both spectra are kept for the backward pass, where sums over time become products with their conjugates.
    """

    @staticmethod
    def forward(ctx, z: Tensor, weight: Tensor) -> Tensor:  # pyright: ignore
        n = z.shape[1] + weight.shape[0]  # long enough that nothing wraps around
        z_hat, w_hat = _spectrum(z, n), _spectrum(weight.flip(0).transpose(0, 1), n)  # (f, b, m), (f, m, h)
        ctx.save_for_backward(z_hat, w_hat)
        ctx.sizes = z.shape[1], weight.shape[0], n
        return _signal(z_hat @ w_hat, n)[:, : z.shape[1]]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):  # pyright: ignore
        z_hat, w_hat = ctx.saved_tensors
        t, lags, n = ctx.sizes
        g_hat = _spectrum(grad, n)  # (f, b, h)
        grad_z = _signal(g_hat @ w_hat.mH, n)[:, :t] if ctx.needs_input_grad[0] else None
        grad_weight = _signal(z_hat.mH @ g_hat, n)[:, :lags].transpose(0, 1).flip(0)
        return grad_z, grad_weight


def _spectrum(values: Tensor, n: int) -> Tensor:
    """(b, t, m) -> its FFT over n times, (f, b, m), each frequency a contiguous matrix."""
    return torch.fft.rfft(values.transpose(1, 2), n).permute(2, 0, 1).contiguous()


def _signal(spectrum: Tensor, n: int) -> Tensor:
    """(f, b, m) -> (b, n, m)."""
    return torch.fft.irfft(spectrum.permute(1, 2, 0), n).transpose(1, 2)


class _DelayAt(torch.autograd.Function):
    """The delay sum at a few times: per time one product of the past with a block of weights, no copies."""

    @staticmethod
    def forward(ctx, z: Tensor, weight: Tensor, times: list[int], first_lag: int) -> Tensor:  # pyright: ignore
        ctx.save_for_backward(z, weight)
        ctx.times, ctx.first_lag = times, first_lag
        lags, _, width = weight.shape
        h = z.new_zeros(z.shape[0], len(times), width)
        for s, i in enumerate(times):
            past, block = _met(i, lags, first_lag)
            torch.mm(z[:, past].flatten(1), weight[block].flatten(0, 1), out=h[:, s])
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):  # pyright: ignore
        z, weight = ctx.saved_tensors
        lags = weight.shape[0]
        grad_z = torch.zeros_like(z) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight)
        for s, i in enumerate(ctx.times):
            past, block = _met(i, lags, ctx.first_lag)
            grad_weight[block].flatten(0, 1).addmm_(z[:, past].flatten(1).T, grad[:, s])
            if grad_z is not None:
                back = grad[:, s] @ weight[block].flatten(0, 1).T
                grad_z[:, past] += back.view(z.shape[0], -1, z.shape[2])
        return grad_z, grad_weight, None, None


def _met(i: int, lags: int, first_lag: int) -> tuple[slice, slice]:
    """The input times that h_i sees, and the weights they meet: slices of equal length."""
    stop = max(0, i + 1 - first_lag)
    start = max(0, stop - lags)
    return slice(start, stop), slice(lags - (stop - start), lags)
