"""A law with an equation inside: û_k' = λ_k û_k + b f̂_k + Σ_q a_q D_q F̂_qk, stepped by exponential Runge-Kutta."""

import torch
from torch import Tensor, nn

from tino.errors import TinoError
from tino.parts.fourier import Fourier
from tino.parts.law import Law
from tino.parts.pointwise import Pointwise

MOST_STEPS = 64
POWERS = "²³⁴⁵"
ADVECTION = "v·∇u"
GROWS = 1e-6  # a linear part that grows by more in a step
OVER = 1.5  # points for products: squares do not alias


class EquationLaw(Law):
    """û(t_i) from û(t_{i-1}): ``steps`` Runge-Kutta steps of fourth order in the integrating factor e^{λ_k t}.

    λ_k is the symbol of the linear terms (1, ∂, ∂², ...), F_q are powers of u up to ``degree`` and, in two or three
    dimensions, the advection v·∇w of a vorticity by its own velocity; D_q are 1 and derivatives. Between samples f
    is the parabola through f_{i-2}, f_{i-1}, f_i, or at the start of a record the line through the last two. A
    ``network`` of the field adds what these terms leave. Then the numbers move, and each λ_k learns a part of its own,
    both in units of what is left to learn. ``numbers`` are b, the factors of λ_k, and a_q, in units in which a number
    of size one matters in one time step.

    If the waves go beyond the samples, ``start`` are those beyond at T_0, which ``state`` assumes of every u, and
    ``shares`` says how the input's aliases are divided among the waves that look alike.
    """

    kind = "equation"
    lags, window = 1, 3
    numbers: Tensor
    scale: Tensor
    start: Tensor
    shares: Tensor

    def __init__(
        self, waves: Fourier, length: float, dt: float, steps: int, degree: int, network: Pointwise | None = None
    ) -> None:
        if not 1 <= steps <= MOST_STEPS or not 1 <= degree <= 1 + len(POWERS):
            raise TinoError(f"{steps} inner steps and degree {degree}, expected 1 to {MOST_STEPS}, and 1 to 5")
        super().__init__(steps=steps, degree=degree)
        self.waves, self.length, self.dt, self.network = waves, length, dt, network
        self.axes = "xyz"[: len(waves.axes)]
        self.names = ["f", *self._linear_names(), *self._product_names()]
        self.register_buffer("scale", torch.ones(2, dtype=torch.float64))  # of u and f
        own = torch.zeros(waves.sizes["waves"], 1 if waves.sizes["mirrored"] else 2, dtype=torch.float64)
        self.beyond = bool(waves.sizes["beyond"])
        if self.beyond:
            count = waves.sizes["waves"]
            self.start = nn.Parameter(torch.zeros(count, 2, dtype=torch.float64), requires_grad=False)
            self.shares = nn.Parameter(torch.zeros(count, dtype=torch.float64), requires_grad=False)
        self._found: tuple[object, list[bool]] | None = None
        zeros = torch.zeros(len(self.names), dtype=torch.float64)
        self.numbers = nn.Parameter(zeros, requires_grad=False)
        self.own = None if network is None else nn.Parameter(own)  # what is learned of each λ_k: decay, frequency
        self.moved = None if network is None else nn.Parameter(zeros.clone())  # what is learned of the numbers

    def again(
        self,
        steps: int | None = None,
        degree: int | None = None,
        waves: Fourier | None = None,
        network: Pointwise | None = None,
    ) -> "EquationLaw":
        """A law in the same units, with other sizes, its numbers zero."""
        sizes = (steps or self.sizes["steps"], degree or self.sizes["degree"])
        made = EquationLaw(waves or self.waves, self.length, self.dt, *sizes, network)
        made.scale.copy_(self.scale)
        return made

    # -- coordinates -----------------------------------------------------------------------------------------

    def state(self, u: Tensor) -> Tensor:
        if not self.beyond:
            return self.waves.state(u / self.scale[0])
        hidden = torch.view_as_complex(self.start)
        left = u / self.scale[0] - self.waves.sampled(hidden)
        return self.waves.real(hidden + self.waves.spectrum(left))

    def output(self, c: Tensor) -> Tensor:
        return self.waves.output(c) * self.scale[0]

    def inputs(self, f: Tensor) -> Tensor:
        """The waves of f, and a 1: before the record, where all is zero, it says that there was no input."""
        f = f / self.scale[1]
        g = self.waves.real(self.waves.aliases(f) * self.shares) if self.beyond else self.waves.state(f)
        return torch.cat([g, torch.ones_like(g[..., :1])], -1)

    # -- the equation ----------------------------------------------------------------------------------------

    def learned(self) -> Tensor:
        """The numbers, as a network's training has moved them."""
        if self.network is None or self.moved is None:
            return self.numbers
        return self.numbers + self.network.output * self.dt * self.moved

    def _linear_names(self) -> list[str]:
        mirrored = self.waves.sizes["mirrored"]
        first = [] if mirrored else [f"u_{x}" for x in self.axes]
        return ["u", *first, "Δu", "ΔΔu"]

    def _product_names(self) -> list[str]:
        powers = [f"u{POWERS[d - 2]}" for d in range(2, self.sizes["degree"] + 1)]
        found = [*powers, *[f"Δ({p})" for p in powers]]
        if not self.waves.sizes["mirrored"]:
            found += [f"({p})_{x}" for p in powers for x in self.axes]
        return found + ([ADVECTION] if len(self.axes) > 1 and powers else [])

    def _symbols(self, like: Tensor) -> tuple[list[Tensor], Tensor]:
        """k along each axis, over the largest, and |k|²."""
        k = [one.to(like) for one in self.waves.wavenumbers(self.length)]
        highest = torch.stack(k).abs().max()
        k = [one / torch.where(highest > 0, highest, 1.0) for one in k]
        return k, sum((one.square() for one in k[1:]), k[0].square())

    def coefficients(self) -> dict[str, float]:
        """The equation's coefficients by term, in the units of the data."""
        highest = float(torch.stack(self.waves.wavenumbers(self.length)).abs().max()) or 1.0
        u, f = self.scale.tolist()
        found = {}
        for name, number in zip(self.names, self.learned().tolist(), strict=True):
            order = 4 if name.startswith("ΔΔ") else 2 if name.startswith("Δ") else 1 if "_" in name else 0
            power = next((d for d, sign in enumerate(POWERS, 2) if sign in name), 2 if "v" in name else 1)
            unit = u / f if name == "f" else u ** (1 - power) / highest**order
            found[name] = number * unit / self.dt
        return found

    def equation(self, digits: int = 4) -> str:
        """u_t = ..., its terms by the size of their numbers."""
        size = {name: abs(number) for name, number in zip(self.names, self.learned().tolist(), strict=True)}
        terms = sorted(((name, a) for name, a in self.coefficients().items() if a), key=lambda one: -size[one[0]])
        text = " ".join(f"{'-' if a < 0 else '+'} {abs(a):.{digits}g} {name}" for name, a in terms)
        return f"u_t = {text.removeprefix('+ ')}"

    def rates(self, numbers: Tensor) -> Tensor:
        """λ_k, (k,) complex."""
        k, square = self._symbols(numbers)
        first = [] if self.waves.sizes["mirrored"] else [1j * one for one in k]
        terms = [torch.ones_like(square), *first, -square, square.square()]
        found = sum((a * t for a, t in zip(numbers[1:], terms, strict=False)), torch.zeros_like(square) * 1j)
        if self.network is not None and self.own is not None:
            own = self.network.output * self.dt * self.own
            found = found - own[:, 0] + (0 if self.waves.sizes["mirrored"] else 1j * own[:, -1])
        return found / self.dt

    def multipliers(self, numbers: Tensor) -> dict[int, Tensor]:
        """Of the spectra of u^d, to their sum (k,), by d; powers without effect are left out."""
        k, square = self._symbols(numbers)
        n, before = self.sizes["degree"] - 1, 1 + len(self._linear_names())
        a, there = numbers[before:], self._there(numbers)[before:]
        outer = [torch.ones_like(square) + 0j, -square + 0j]
        outer += [] if self.waves.sizes["mirrored"] else [1j * one for one in k]
        found = {}
        for d in range(n):
            places = [d, n + d, *[2 * n + d * len(k) + x for x in range(len(outer) - 2)]]
            if any(there[place] for place in places):
                found[d + 2] = sum((a[place] * o for place, o in zip(places, outer, strict=True)), 0 * square)
        return found

    def _there(self, numbers: Tensor) -> list[bool]:
        """Which terms have an effect. Of the law's own numbers they are looked up once: a graph that is traced has no
        values to look at."""
        if self.network is not None:  # to learn, each has to be there
            return [True] * len(numbers)
        if numbers is not self.numbers:
            return [bool(one) for one in numbers]
        key = (numbers._version, numbers.device)
        if self._found is None or self._found[0] != key:
            self._found = (key, [bool(one) for one in numbers])
        return self._found[1]

    def advection(self, v: Tensor, number: Tensor) -> Tensor:
        """a ∇·(v w), of the waves that have a velocity: a field of the third coordinate alone is not moved."""
        index, waves = self._moving()
        k, _ = self._symbols(number)
        k1, k2 = k[0][index], k[1][index]
        psi = 1 / (k1.square() + k2.square())
        w = v[..., index]
        shape = (3, *[1] * (v.ndim - 1), len(index))
        fields = waves.fine(torch.stack([torch.ones_like(psi) + 0j, 1j * k2 * psi, -1j * k1 * psi]).view(shape) * w)
        flux = waves.back(fields[1:] * fields[0])
        return torch.zeros_like(v).index_copy(-1, index, number * 1j * (k1 * flux[0] + k2 * flux[1]))

    def _moving(self) -> tuple[Tensor, Fourier]:
        """The places of the waves that have a velocity, and these waves, with the points that their squares need."""

        def found() -> tuple[Tensor, Fourier]:
            chosen = (self.waves.kept[:, :2] != 0).any(1)
            return chosen.nonzero()[:, 0], self.waves.part(chosen, OVER)

        return self.waves.once("moving", found)

    def right(self, v: Tensor, f: Tensor, numbers: Tensor, powers: dict[int, Tensor]) -> Tensor:
        """All but the linear part: b f̂ + Σ_q a_q D_q F̂_q + the network, (..., k)."""
        total = numbers[0] * f
        if powers:
            u = self.waves.fine(v)
            spectra = self.waves.back(torch.stack([u**d for d in powers]))
            total = total + sum(one * spectrum for one, spectrum in zip(powers.values(), spectra, strict=True))
        if self.names[-1] == ADVECTION and self._there(numbers)[-1]:
            total = total + self.advection(v, numbers[-1])
        total = total / self.dt
        return total if self.network is None else total + self.network(self.waves, v, f)

    def step(self, past: Tensor, g: Tensor, numbers: Tensor) -> Tensor:
        """(..., 1, J), (..., 3, J + 1) -> û_i (..., k)."""
        v = self.waves.waves(past[..., -1, :])
        older, before, now = (self.waves.waves(g[..., j, :-1]) for j in range(3))
        older = torch.where(g[..., 0, -1:] > 0, older, 2 * before - now)
        slope, bend = (now - older) / 2, (now - 2 * before + older) / 2
        steps, rates = self.sizes["steps"], self.rates(numbers)
        h = self.dt / steps
        half = torch.exp(rates * (h / 2))
        whole = half * half
        others = (numbers, self.multipliers(numbers))
        for j in range(steps):
            q = j / steps
            f0, f1, f2 = (before + s * slope + s * s * bend for s in (q, q + 0.5 / steps, q + 1 / steps))
            a = half * v
            k1 = self.right(v, f0, *others)
            k2 = self.right(a + h / 2 * half * k1, f1, *others)
            k3 = self.right(a + h / 2 * k2, f1, *others)
            k4 = self.right(whole * v + h * half * k3, f2, *others)
            v = whole * v + h / 6 * (whole * k1 + 2 * half * (k2 + k3) + k4)
        return v

    def forward(self, past: Tensor, g: Tensor, i: int | Tensor) -> Tensor:
        return self.waves.real(self.step(past, g, self.learned()))

    def readout(self, dt: float) -> tuple[str, ...]:
        """The equation, and its fastest growing wave, if one grows."""
        k = torch.stack(self.waves.wavenumbers(self.length)).square().sum(0).sqrt()
        rates = self.rates(self.learned()).real.detach()
        fastest = int(rates.argmax())
        rate, at = float(rates[fastest]), float(k[fastest])
        grows = (f"its linear part grows at the rate {rate:.4g} at |k| = {at:.4g}",) if rate * dt > GROWS else ()
        return (self.equation() + (" + a network" if self.network is not None else ""), *grows)
