"""Steps that are matrix products, monomials and small networks, as plain arrays: what the numpy and C runners read.

With s the last states and w the last inputs z = f P, oldest first, a step is

    c = [1, s, w] L + Σ_q W_q Π_k v_{index_qk} + b tanh(V N(h) / b),    u = c O + o,
    v = [1, s, w] R,    h = [1, s, w] H + (what ic adds)

where each layer of N is gelu(h G + g), with a factor gelu(h G + g) (h F + d). Before the first input all past states
are a, and ic adds b to h: (a, b) = rest + (ic - offset) S. A step of the delay family is V N(h),
without a bound b, and has no past states; one of a law in coefficients has no network. Terms that a step lacks have no
arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tino.errors import TinoError
from tino.frame import numbers
from tino.models.flow import Flow
from tino.models.separable import Separable
from tino.operator import Operator
from tino.parts.coefficients import CoefficientLaw
from tino.parts.corrected import CorrectedLaw
from tino.parts.mixers import DelayMixer
from tino.parts.networks import Branch

Array = NDArray[Any]


@dataclass(frozen=True)
class Program:
    """``arrays`` by the names that ``runner.py`` reads, and the sizes of its loops."""

    lags: int  # past states
    window: int  # inputs, the present one included
    layers: int  # of the network
    starts: bool  # whether the first step only answers with the start, as in a flow
    arrays: dict[str, Array]

    def sizes(self) -> dict[str, int | bool]:
        return {"lags": self.lags, "window": self.window, "layers": self.layers, "starts": self.starts}


def program(model: Operator) -> Program:
    """The arrays of a model; an error, with the reason, for kinds of steps that have no such form."""
    if not (model.properties.causal and model.properties.autonomous):
        raise _refused(model, "; ".join(model.properties.reasons))
    with torch.no_grad():
        if isinstance(model, Flow) and isinstance(model.law, CoefficientLaw | CorrectedLaw):
            return _of_flow(model, model.law)
        if isinstance(model, Separable) and isinstance(model.mixer, DelayMixer) and isinstance(model.branch, Branch):
            return _of_delay(model, model.mixer)
    kind = f"law of kind '{model.law.kind}'" if isinstance(model, Flow) else type(model).__name__
    raise _refused(model, f"no program of products and networks is known for a {kind}")


def _refused(model: Operator, why: str) -> TinoError:
    return TinoError(f"{model.frame.model} cannot be written as C or numpy: {why}; export it as onnx")


def _numpy(arrays: dict[str, Tensor], like: Tensor) -> dict[str, Array]:
    return {
        name: np.ascontiguousarray((one if name == "index" else one.to(like.dtype)).detach().cpu().numpy())
        for name, one in arrays.items()
    }


def _offset(model: Operator) -> Tensor:
    """Of an initial state, (k,)."""
    centred = model.centred(numbers(model).new_zeros(1, model.frame.state))
    assert centred is not None
    return -centred[0]


def _affine(of: Callable[[Tensor], Tensor], k: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """The matrix (k, n) and the constant (n,) of an affine map."""
    constant = of(like.new_zeros(1, k))[0]
    return (of(torch.eye(k, dtype=like.dtype)) - constant if k else like.new_zeros(0, len(constant))), constant


# -- laws in coefficients --------------------------------------------------------------------------------------


def _of_flow(model: Flow, law: CoefficientLaw | CorrectedLaw) -> Program:
    base = law.law if isinstance(law, CorrectedLaw) else law
    if base.sizes["level"]:
        raise _refused(model, "its coefficients follow the level of the excitation")
    sizes, k, own = base.sizes, model.frame.state, numbers(model)
    read, constant = _read(base), int(sizes["constant"])
    order = [*range(1, read.shape[1]), *[0] * constant]  # of the linear terms

    def start(centred: Tensor) -> Tensor:
        return model.rest(len(centred), centred if k else None)[0][:, -1]

    ic_state, rest = _affine(start, k, own) if k else (own.new_zeros(0, sizes["states"]), start(own.new_zeros(1, 0))[0])
    to_output, bias = _affine(law.output, sizes["states"], own)
    arrays = {
        "to_input": base.to_input,
        "linear": read[:, order] @ base.weights[: base.linear],
        "to_output": to_output,
        "bias": model.with_offset(bias),
        "ic_offset": _offset(model),
    }
    if len(base.index):
        arrays |= {"read": read, "index": base.index, "weights": base.weights[base.linear :]}
    layers, width = 0, 0
    if isinstance(law, CorrectedLaw):
        layers, width = len(law.gates), len(law.inputs_size)
        arrays |= _corrected(law)
    arrays["rest"] = torch.cat([rest, own.new_zeros(width)])
    arrays["ic_start"] = torch.cat([ic_state, own.new_zeros(k, width)], 1)
    return Program(law.lags, law.window, layers, True, _numpy(arrays, own))


def _read(law: CoefficientLaw) -> Tensor:
    """R: [1, past states, inputs], oldest first -> (1, the law's delays, latest first, and the inputs' moments)."""
    s = law.sizes
    columns = 1 + law.linear - int(s["constant"])
    found = law.weights.new_zeros(1 + law.lags * s["states"] + law.window * s["sources"], columns)
    found[0, 0] = 1.0
    one = torch.eye(s["states"]).to(found)
    for d in range(1, s["delays"] + 1):
        row, column = 1 + (law.lags - d * s["stride"]) * s["states"], 1 + (d - 1) * s["states"]
        found[row : row + s["states"], column : column + s["states"]] = one
    found[1 + law.lags * s["states"] :, 1 + s["delays"] * s["states"] :] = _moments(law)
    return found


def _moments(law: CoefficientLaw) -> Tensor:
    """From the inputs of a window to their moments: (window r, moments r)."""
    return torch.kron(law.basis.contiguous(), torch.eye(law.sizes["sources"]).to(law.basis))


def _corrected(law: CorrectedLaw) -> dict[str, Tensor]:
    """The network, scaled, without its value at zero."""
    base, own = law.law, law.inputs_size
    states, stride = base.sizes["states"], base.sizes["stride"]
    read = own.new_zeros(1 + law.lags * states + law.window * base.sizes["sources"], len(own))
    for d, shapes in enumerate(law.shapes):
        row = 1 + d * stride * states
        read[row : row + states, : len(shapes) * states] = torch.kron(shapes[None].to(own), torch.eye(states).to(own))
    read[1 + law.lags * states :, len(law.shapes) * states :] = _moments(base)
    found = {"net_read": read / own}
    for n, (gate, factor) in enumerate(zip(law.gates, law.factors, strict=True)):
        assert isinstance(gate, nn.Linear)
        assert isinstance(factor, nn.Linear)
        found |= {f"gate_{n}": gate.weight.T, f"gate_bias_{n}": gate.bias}
        found |= {f"factor_{n}": factor.weight.T, f"factor_bias_{n}": 1 + factor.bias}
    at_zero = law.network(torch.zeros_like(own))
    ratio = law.left / law.bound  # V and its bias are divided by b
    found |= {"last": law.last.weight.T * ratio, "last_bias": (law.last.bias - at_zero) * ratio}
    return {**found, "bound": law.bound}


# -- the delay family ------------------------------------------------------------------------------------------


def _of_delay(model: Separable, mixer: DelayMixer) -> Program:
    own, k = numbers(model), model.frame.state
    weights = mixer.weight.flatten(0, 1)
    unread = weights.new_zeros(mixer.first_lag * mixer.weight.shape[1], mixer.width)
    linear = [layer for layer in model.branch.modules() if isinstance(layer, nn.Linear)]
    modes = linear[-1].out_features

    def output(c: Tensor) -> Tensor:
        return model._scaled_up(model.basis.expand((c * model.basis.scale)[:, None]))[:, 0]

    to_output, bias = _affine(output, modes, own)
    to_input, _ = _affine(model.sensors, model.frame.input_size, own)
    held = own.new_zeros(k, mixer.width)
    if model.initial is not None:
        held, _ = _affine(model.initial, k, own)
    arrays = {
        "to_input": to_input,
        "net_read": torch.cat([mixer.bias[None], weights, unread]),
        "last": linear[-1].weight.T,
        "last_bias": linear[-1].bias,
        "to_output": to_output,
        "bias": model.with_offset(bias),
        "ic_offset": _offset(model),
        "rest": own.new_zeros(modes + mixer.width),
        "ic_start": torch.cat([own.new_zeros(k, modes), held], 1),
    }
    for n, layer in enumerate(linear[:-1]):
        arrays |= {f"gate_{n}": layer.weight.T, f"gate_bias_{n}": layer.bias}
    return Program(0, len(mixer.weight) + mixer.first_lag, len(linear) - 1, False, _numpy(arrays, own))
