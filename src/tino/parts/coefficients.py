"""Laws in coefficients: products of POD coefficients or of delays, and of the inputs."""

import math
from collections.abc import Iterator
from itertools import combinations_with_replacement

import torch
from torch import Tensor, nn

from tino.errors import TinoError, counted
from tino.parts.law import LeastSquaresLaw, chebyshev, law_properties, window_moments

MOST_TERMS = 20_000
LEVELS = 9  # of the excitation, at which the growth is looked at
SHOWN = 6  # terms and poles in a read-out


class CoefficientLaw(LeastSquaresLaw):
    """c_i = Σ_q W_q φ_q(c_{i-s}, c_{i-2s}, ..., c_{i-ps}; f_{i-ps}, ..., f_i), φ_q monomials.

    c = (u - u_m) T are coefficients of the outputs, g = f S of the inputs. The inputs enter by ``moments`` polynomials
    over the window (0: each by itself). Monomials: every coefficient and moment; products of the first ``products``
    coefficients of each delay, or of the ``near`` latest ones, up to ``degree``; with ``cross``, those coefficients
    times the first ``cross`` moments and, from degree 3 on, their pairs, and pairs of moments, with half as many. With
    a ``clock``, the linear terms are multiplied by Chebyshev polynomials of the time up to this degree. With a
    ``level``, they are multiplied by 1 and by the root mean square of the inputs over so many steps, kept within the
    range that was met in the fit: a linear law whose coefficients follow the level of the excitation.
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
        near: int = 0,
        level: int = 0,
    ) -> None:
        sizes = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        super().__init__(**sizes)
        self.lags, self.window = delays * stride, max(delays * stride + 1, level)
        self.properties = law_properties(constant, clock)
        self.affine = degree < 2 and not clock and not level
        self.register_buffer("basis", window_moments(self.lags + 1, moments), persistent=False)
        check_terms((near or delays) * products, sources, degree, min(cross, self.basis.shape[1]))
        index = torch.tensor(list(self._monomials()), dtype=torch.long).view(-1, max(2, degree))
        self.register_buffer("index", index, persistent=False)
        fixed = {
            "middle": (outputs if centred else 0,),
            "to_state": (outputs, states),
            "to_output": (states, outputs),
            "to_input": (inputs, sources),
            **({"levels": (2,)} if level else {}),
        }
        for name, shape in {**fixed, "weights": (self.count, states)}.items():
            setattr(self, name, nn.Parameter(torch.zeros(shape, dtype=torch.float64), requires_grad=False))

    middle: Tensor
    to_state: Tensor
    to_output: Tensor
    to_input: Tensor
    levels: Tensor
    basis: Tensor
    index: Tensor

    # -- coordinates -----------------------------------------------------------------------------------------

    def state(self, u: Tensor) -> Tensor:
        return (u - self.middle if self.sizes["centred"] else u) @ self.to_state

    def output(self, c: Tensor) -> Tensor:
        u = c @ self.to_output
        return u + self.middle if self.sizes["centred"] else u

    def inputs(self, f: Tensor) -> Tensor:
        """With a level, their mean square comes last."""
        g = f @ self.to_input
        return torch.cat([g, g.square().mean(-1, keepdim=True)], -1) if self.sizes["level"] else g

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
        levels = self.linear - self._one if self.sizes["level"] else 0
        return self.linear * (1 + self.sizes["clock"]) + levels + len(self.index)

    def _monomials(self) -> Iterator[list[int]]:
        """The factors of each product, as places in (1, coefficients, moments); 1 fills up."""
        s, width = self.sizes, max(2, self.sizes["degree"])
        if s["degree"] < 2:
            return
        base = [1 + d * s["states"] + j for d in range(s["near"] or s["delays"]) for j in range(s["products"])]
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
        seen = past[..., :: self.sizes["stride"], :].flip(-2).flatten(-2)  # c_{i-s}, c_{i-2s}, ...
        now = g[..., -self.lags - 1 :, : self.sizes["sources"]]
        moments = torch.einsum("...wr,wk->...kr", now, self.basis).flatten(-2)
        one = torch.ones_like(seen[..., :1])
        linear = torch.cat([seen, moments, one[..., : self._one]], -1)
        if self.sizes["level"]:
            level = self.excitation(g).clamp(self.levels[0], self.levels[1])[..., None]
            linear = torch.cat([linear, seen * level, moments * level], -1)
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

    def excitation(self, g: Tensor) -> Tensor:
        """The root mean square (...) of the inputs over the last ``level`` steps, from (..., window, r + 1)."""
        return g[..., -self.sizes["level"] :, -1].mean(-1).sqrt()

    def combine(self, features: Tensor, weights: Tensor) -> Tensor:
        return features @ weights

    # -- fits ------------------------------------------------------------------------------------------------

    def as_weights(self, solution: Tensor) -> Tensor:
        return solution[..., 0, :, :]

    def _blocks(self) -> list[Tensor]:
        """The factors of each delay's coefficients, (delays, J, J), and those of their products with the level."""
        delays, states = self.sizes["delays"], self.sizes["states"]
        firsts = [0, self.linear] if self.sizes["level"] else [0]
        return [self.weights.data[n : n + delays * states].view(delays, states, states) for n in firsts]

    def growth(self) -> float:
        if self.sizes["clock"]:
            return 0.0
        levels = (
            torch.linspace(float(self.levels[0]), float(self.levels[1]), LEVELS).tolist()
            if self.sizes["level"]
            else [0.0]
        )
        return max(float(self._eigenvalues(level)[0].abs()) for level in levels) ** (1 / self.sizes["stride"])

    def _eigenvalues(self, level: float | None = None) -> Tensor:
        """Of the linear part over a stride, the largest first; at the lowest level met, unless one is given."""
        blocks, *more = self._blocks()
        if more:
            blocks = blocks + (float(self.levels[0]) if level is None else level) * more[0]
        return eigenvalues(blocks.cpu().double())

    def damp(self) -> None:
        """With one delay, only the λ above 1 shrink; with more, all of them."""
        blocks = self._blocks()[0]
        if len(blocks) == 1 and not self.sizes["level"]:
            values, vectors = torch.linalg.eig(blocks[0].T)
            shrunk = (vectors * (values / values.abs().clamp_min(1.0))) @ torch.linalg.pinv(vectors)
            whole = vectors * values @ torch.linalg.pinv(vectors)
            if bool((whole.real - blocks[0].T).norm() <= 1e-9 * blocks.norm()):  # there are eigenvectors enough
                blocks[0].copy_(shrunk.real.T)
                return
        ratio = self.growth() ** self.sizes["stride"]
        powers = ratio ** -torch.arange(1.0, self.sizes["delays"] + 1, dtype=torch.float64)
        for part in self._blocks():
            part.mul_(powers[:, None, None])

    def poles(self, dt: float) -> Tensor:
        """log λ / dt of the linear part, by growing decay: negative real parts decay."""
        if self.sizes["clock"]:
            return super().poles(dt)
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
            products = ", and products" if s["degree"] > 1 else ""
            return (f"linear terms with a clock{products}: {counted(s['delays'], 'delay')}",)
        if s["states"] == s["outputs"] == s["inputs"] == s["sources"] == 1 and not s["centred"] and not s["level"]:
            terms = [f"{'-' if a < 0 else '+'} {abs(a):.4g} {name}" for name, a in self.terms_by_size()[:SHOWN]]
            lines = (f"u(i) = {' '.join(terms).removeprefix('+ ')} + ...",)
        poles = [f"{z.real:.4g}{z.imag:+.4g}i" if abs(z.imag) > 1e-9 else f"{z.real:.4g}" for z in self.poles(dt)]
        where = ", at the lowest level" if s["level"] else ""
        return (*lines, f"slowest poles of the linear part{where}: {', '.join(poles[:SHOWN])}")

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


def eigenvalues(blocks: Tensor) -> Tensor:
    """Of the recurrence c_i = Σ_d c_{i-d} A_d, blocks (delays, J, J), the largest first."""
    found = torch.linalg.eigvals(companion(blocks))
    return found[found.abs().argsort(descending=True)]


def companion(blocks: Tensor) -> Tensor:
    """M of (c_i, c_{i-1}, ...) = (c_{i-1}, c_{i-2}, ...) M for that recurrence."""
    size, states = len(blocks) * blocks.shape[1], blocks.shape[1]
    found = blocks.new_zeros(size, size)
    found[:, :states] = blocks.flatten(0, 1)
    found[: size - states, states:] = torch.eye(size - states).to(blocks)
    return found
