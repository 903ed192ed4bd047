"""Laws in coefficients: products of POD coefficients or of delays, and of the inputs."""

import math
from collections.abc import Iterator
from itertools import combinations_with_replacement

import torch
from torch import Tensor, nn

from tino.errors import TinoError
from tino.parts.law import LeastSquaresLaw, chebyshev, law_properties, window_moments

MOST_TERMS = 20_000
SHOWN = 6  # terms and poles in a read-out


class CoefficientLaw(LeastSquaresLaw):
    """c_i = Σ_q W_q φ_q(c_{i-s}, c_{i-2s}, ..., c_{i-ps}; f_{i-ps}, ..., f_i), φ_q monomials.

    c = (u - u_m) T are coefficients of the outputs, g = f S of the inputs. The inputs enter by ``moments`` polynomials
    over the window (0: each by itself). Monomials: every coefficient and moment; products of the first ``products``
    coefficients of each delay up to ``degree``; with ``cross``, those coefficients times the first ``cross`` moments
    and, from degree 3 on, their pairs, and pairs of moments, with half as many. With a ``clock``, the linear terms are
    multiplied by Chebyshev polynomials of the time up to this degree.
    """

    kind = "coefficients"

    def __init__(
        self,
        outputs: int,
        inputs: int,
        states: int,
        sources: int,
        delays: int,
        stride: int,
        moments: int,
        products: int,
        degree: int,
        cross: int,
        constant: bool,
        centred: bool,
        clock: int,
        times: int,
    ) -> None:
        sizes = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        super().__init__(**sizes)
        self.lags, self.window = delays * stride, delays * stride + 1
        self.properties = law_properties(constant, clock)
        self.register_buffer("basis", window_moments(self.window, moments), persistent=False)
        check_terms(delays * products, sources, degree, min(cross, self.basis.shape[1]))
        index = torch.tensor(list(self._monomials()), dtype=torch.long).view(-1, max(2, degree))
        self.register_buffer("index", index, persistent=False)
        fixed = {
            "middle": (outputs if centred else 0,),
            "to_state": (outputs, states),
            "to_output": (states, outputs),
            "to_input": (inputs, sources),
        }
        for name, shape in {**fixed, "weights": (self.count, states)}.items():
            setattr(self, name, nn.Parameter(torch.zeros(shape, dtype=torch.float64), requires_grad=False))

    middle: Tensor
    to_state: Tensor
    to_output: Tensor
    to_input: Tensor
    basis: Tensor
    index: Tensor

    # -- coordinates -----------------------------------------------------------------------------------------

    def state(self, u: Tensor) -> Tensor:
        return (u - self.middle if self.sizes["centred"] else u) @ self.to_state

    def output(self, c: Tensor) -> Tensor:
        u = c @ self.to_output
        return u + self.middle if self.sizes["centred"] else u

    def inputs(self, f: Tensor) -> Tensor:
        return f @ self.to_input

    # -- terms -----------------------------------------------------------------------------------------------

    @property
    def linear(self) -> int:
        """Linear terms at one time: coefficients of all delays, moments, perhaps a constant."""
        return self.sizes["delays"] * self.sizes["states"] + self.sizes["sources"] * self.basis.shape[1] + self._one

    @property
    def _one(self) -> int:
        return int(self.sizes["constant"])

    @property
    def count(self) -> int:
        """Terms in all."""
        return self.linear * (1 + self.sizes["clock"]) + len(self.index)

    def _monomials(self) -> Iterator[list[int]]:
        """The factors of each product, as places in (1, coefficients, moments); 1 fills up."""
        s, width = self.sizes, max(2, self.sizes["degree"])
        if s["degree"] < 2:
            return
        base = [1 + d * s["states"] + j for d in range(s["delays"]) for j in range(s["products"])]
        first = 1 + s["delays"] * s["states"]
        moment = [
            [first + k * s["sources"] + j for j in range(s["sources"])]
            for k in range(min(s["cross"], self.basis.shape[1]))
        ]
        every = [place for part in moment for place in part]
        half = [place for part in moment[: (len(moment) + 1) // 2] for place in part]
        chosen = [c for d in range(2, s["degree"] + 1) for c in combinations_with_replacement(base, d)]
        chosen += [(a, b) for a in base for b in every]
        if s["degree"] > 2:
            chosen += [(*pair, b) for pair in combinations_with_replacement(base, 2) for b in half]
            chosen += list(combinations_with_replacement(half, 2))
        for factors in chosen:
            yield [*factors, *[0] * (width - len(factors))]

    def features(self, past: Tensor, g: Tensor, i: int | Tensor) -> Tensor:
        """φ (..., q) from the states (..., lags, J) and the inputs (..., window, r), oldest first."""
        stride, delays = self.sizes["stride"], self.sizes["delays"]
        seen = past[..., [(delays - d) * stride for d in range(1, delays + 1)], :].flatten(-2)  # the latest first
        moments = torch.einsum("...wr,wk->...kr", g, self.basis).flatten(-2)
        one = torch.ones_like(seen[..., :1])
        linear = torch.cat([seen, moments, one[..., : self._one]], -1)
        if clock := self.sizes["clock"]:
            waves = chebyshev(i, self.sizes["times"], 1 + clock, seen).expand(*seen.shape[:-1], 1 + clock)
            linear = (linear[..., None] * waves[..., None, :]).flatten(-2)
        if not len(self.index):
            return linear
        factors = torch.cat([one, seen, moments], -1)
        product = factors[..., self.index[:, 0]]
        for column in self.index.T[1:]:
            product = product * factors[..., column]
        return torch.cat([linear, product], -1)

    def combine(self, features: Tensor, weights: Tensor) -> Tensor:
        return features @ weights

    # -- fits ------------------------------------------------------------------------------------------------

    def as_weights(self, solution: Tensor) -> Tensor:
        return solution[..., 0, :, :]

    def _blocks(self) -> Tensor:
        """The factors of each delay's coefficients, (delays, J, J)."""
        delays, states = self.sizes["delays"], self.sizes["states"]
        return self.weights.data[: delays * states].view(delays, states, states)

    def growth(self) -> float:
        if self.sizes["clock"]:
            return 0.0
        return float(self._eigenvalues()[0].abs()) ** (1 / self.sizes["stride"])

    def _eigenvalues(self) -> Tensor:
        """Of the linear part over a stride, the largest first."""
        blocks = self._blocks()
        size = len(blocks) * blocks.shape[1]
        companion = torch.zeros(size, size, dtype=torch.float64)
        companion[:, : blocks.shape[1]] = blocks.flatten(0, 1).cpu().double()
        companion[: size - blocks.shape[1], blocks.shape[1] :] = torch.eye(size - blocks.shape[1], dtype=torch.float64)
        found = torch.linalg.eigvals(companion)
        return found[found.abs().argsort(descending=True)]

    def damp(self) -> None:
        """With one delay, only the λ above 1 shrink; with more, all of them."""
        blocks = self._blocks()
        if len(blocks) == 1:
            values, vectors = torch.linalg.eig(blocks[0].T)
            shrunk = (vectors * (values / values.abs().clamp_min(1.0))) @ torch.linalg.pinv(vectors)
            whole = vectors * values @ torch.linalg.pinv(vectors)
            if bool((whole.real - blocks[0].T).norm() <= 1e-9 * blocks.norm()):  # there are eigenvectors enough
                blocks[0].copy_(shrunk.real.T)
                return
        ratio = self.growth() ** self.sizes["stride"]
        powers = ratio ** -torch.arange(1.0, self.sizes["delays"] + 1, dtype=torch.float64)
        self._blocks().mul_(powers[:, None, None])

    def poles(self, dt: float) -> Tensor:
        """log λ / dt of the linear part, by growing decay: negative real parts decay."""
        return torch.log(self._eigenvalues()) / (dt * self.sizes["stride"])

    def terms_by_size(self) -> list[tuple[str, float]]:
        """The terms of a single output and input, the largest first, with their coefficients in the data's units."""
        s, size, source = self.sizes, float(self.to_output[0, 0]), float(self.to_input[0, 0])
        states = [f"u(i-{d * s['stride']})" for d in range(1, s["delays"] + 1)]
        inputs = [f"P{k}[f]" for k in range(self.basis.shape[1])]
        names, units = ["1", *states, *inputs], [1.0, *[1 / size] * len(states), *[source] * len(inputs)]
        factors = [*([n] for n in range(1, len(names))), *([[0]] if s["constant"] else []), *self.padded()]
        found = []
        for places, weight in zip(factors, self.weights[:, 0].tolist(), strict=True):
            name = " ".join(names[place] for place in places)
            found.append((name, weight * size * math.prod(units[place] for place in places), abs(weight)))
        return [(name, value) for name, value, _ in sorted(found, key=lambda one: -one[2])]

    def readout(self, dt: float) -> tuple[str, ...]:
        s, lines = self.sizes, ()
        if s["clock"]:
            return ()
        if s["states"] == s["outputs"] == s["inputs"] == s["sources"] == 1 and not s["centred"]:
            terms = [f"{'-' if a < 0 else '+'} {abs(a):.4g} {name}" for name, a in self.terms_by_size()[:SHOWN]]
            lines = (f"u(i) = {' '.join(terms).removeprefix('+ ')} + ...",)
        poles = [f"{z.real:.4g}{z.imag:+.4g}i" if abs(z.imag) > 1e-9 else f"{z.real:.4g}" for z in self.poles(dt)]
        return (*lines, f"slowest poles of the linear part: {', '.join(poles[:SHOWN])}")

    def places(self, larger: "CoefficientLaw") -> tuple[int, ...]:
        """Where this law's terms stand among those of a larger law on the same coordinates."""
        linear = self.count - len(self.index)
        known = {tuple(factors): linear + n for n, factors in enumerate(larger.padded())}
        return (*range(linear), *(known[tuple(factors)] for factors in self.padded()))

    def padded(self) -> list[list[int]]:
        return [sorted(place for place in factors if place) for factors in self.index.tolist()]


def terms(states: int, sources: int, degree: int, cross: int) -> int:
    """How many products there are, about, and linear terms, of so many states of all delays."""
    every, half = sources * cross, sources * ((cross + 1) // 2)
    if degree < 2:
        return states + every
    products = math.comb(states + degree, degree) + (states + 1) * every
    return products + (math.comb(states + 1, 2) * half + math.comb(half + 1, 2)) * (degree > 2)


def check_terms(states: int, sources: int, degree: int, cross: int) -> None:
    """Refuse more terms than a fit can take, before they are listed."""
    if terms(states, sources, degree, cross) > MOST_TERMS:
        raise TinoError(f"a law of degree {degree} would have more than {MOST_TERMS} terms")
