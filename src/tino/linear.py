"""Derivatives of a step with respect to its state and input, and blocks of a step that is affine."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tino.data import check_tensor
from tino.errors import TinoError, shown
from tino.frame import numbers
from tino.memories import as_vector, from_vector
from tino.operator import Operator, State
from tino.properties import check_steps

LENGTHS, NUMBERS = (128, 32, 8), 1024  # steps in a block, and numbers of f and u, at most
ROUNDING = 1e-12  # of the largest |u|
STATES = 1024  # numbers in a memory, at most


class Linearised(NamedTuple):
    """s' ≈ s'_0 + A δs + B δf, u ≈ u_0 + C δs + D δf: A (S, S), B (S, m), C (x, S), D (x, m).

    s are all numbers of the memory, in the order of ``tino.memories.as_vector``.
    """

    A: Tensor
    B: Tensor
    C: Tensor
    D: Tensor


def linearise(model: Operator, state: State, f: Tensor) -> Linearised:
    """The derivatives of the next step, at a state of one record and an input (m,), by torch.func.

    Before the first input that is the first step: a flow answers it with its start.
    """
    if not isinstance(model, Operator):
        raise TinoError(f"the model is {shown(model)}, expected one that tino.build or tino.load returns")
    check_steps(model.frame.model, model.properties)
    check_tensor(f, "f")
    if not isinstance(state, State) or len(as_vector(state.memory)) != 1:
        raise TinoError("linearise takes the State of one record, such as stream.state or that of model.start")
    if f.numel() != model.frame.input_size:
        raise TinoError(f"f has shape {tuple(f.shape)}, expected ({model.frame.input_size},)")
    if not bool(torch.isfinite(f).all()):
        raise TinoError("f has NaN or infinite numbers: leave them out or fill the gap")
    s, f = as_vector(state.memory)[0], f.detach().to(numbers(model, f)).flatten()
    (a, b), (c, d) = torch.func.jacrev(_flat_step(model, state), (0, 1), chunk_size=1)(s.detach(), f)
    return Linearised(*(one.detach() for one in (a, b, c, d)))


def _flat_step(model: Operator, state: State) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """(s (S,), f (m,)) -> (s' (S,), u (x,))."""

    def step(s: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
        memory = from_vector(state.memory, s[None])
        memory, u = model._step(memory, f[None], state.i) if state.i else model._first(memory, f[None])
        return as_vector(memory)[0], model.with_offset(u)[0]

    return step


class AffineBlocks:
    """n steps of s' = A s + B f + a, u = C s + D f + d at once: the same numbers to rounding, by a few products.

    u_k = C A^k s + Σ_{j<k} C A^{k-1-j} B f_j + D f_k + C g_k + d, g_{k+1} = A g_k + a, g_0 = 0. The inputs of all
    blocks meet these matrices in one product; only the states between blocks follow one another.
    """

    def __init__(self, model: Operator, state: State, length: int) -> None:
        zero, s = numbers(model).new_zeros(model.frame.input_size), as_vector(state.memory)[0]
        with torch.no_grad():
            shift, offset = (one.double() for one in _flat_step(model, state)(torch.zeros_like(s), zero))
        a, b, c, d = (one.double() for one in linearise(model, state, zero))
        self.length = length
        row, column, g = c, b, torch.zeros_like(shift)  # C A^k, A^k B, g_k
        of_state, constant, answers, to_end = [], [], [d], []
        for _ in range(length):
            of_state.append(row)
            constant.append(c @ g + offset)
            answers.append(c @ column)
            to_end.append(column)
            row, column, g = row @ a, a @ column, a @ g + shift
        later = [d.new_zeros(len(d), (length - 1 - k) * d.shape[1]) for k in range(length)]
        rows = [torch.cat([*answers[k::-1], later[k]], 1) for k in range(length)]
        self.of_inputs, self.of_state, self.constant = torch.cat(rows), torch.cat(of_state), torch.cat(constant)
        self.to_end, self.power, self.shift = torch.cat(to_end[::-1], 1), torch.linalg.matrix_power(a, length), g

    @staticmethod
    def of(model: Operator, state: State) -> "AffineBlocks | None":
        """The longest blocks that answer noise as the model's own steps do, to rounding.

        None if steps are not affine from here on, or too large. The powers of a step with many delays, whose terms
        nearly cancel, lose digits: then there are none either.
        """
        first, s, m = model.affine_from(), as_vector(state.memory), model.frame.input_size
        if first is None or state.i < first or len(s) > 1 or s.shape[1] > STATES or s.device.type != "cpu":
            return None
        size = max((abs(end) for ends in model.frame.seen.inputs for end in ends), default=1.0)
        noise = size * torch.randn(1, max(LENGTHS), m, generator=torch.Generator().manual_seed(0)).to(s)
        with torch.no_grad():
            u = model.with_offset(model._run(state.memory, noise, state.i)[1])
            for length in LENGTHS:
                if length * (m + model.frame.output_size) <= NUMBERS:
                    found = AffineBlocks(model, state, length)
                    if float((found(state.memory, noise)[1] - u).abs().max()) <= ROUNDING * float(u.abs().max()):
                        return found
        return None

    def __call__(self, memory: Any, f: Tensor) -> tuple[Any, Tensor]:
        """The next inputs (1, k n, m), k whole blocks -> the new memory, and u (1, k n, x), its offset included."""
        inputs = f.double().reshape(-1, self.to_end.shape[1])
        ends = (inputs @ self.to_end.T + self.shift).numpy()
        starts, s, power = np.empty_like(ends), as_vector(memory)[0].double().numpy(), self.power.numpy()
        for k, end in enumerate(ends):
            starts[k] = s
            s = power @ s + end
        u = inputs @ self.of_inputs.T + torch.from_numpy(starts) @ self.of_state.T + self.constant
        return from_vector(memory, torch.from_numpy(s)[None].to(f)), u.view(1, f.shape[1], -1).to(f)
