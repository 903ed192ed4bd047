"""Laws per wavenumber: the step's Taylor expansion in local products of the field, its derivatives and the input."""

import math

import torch
from torch import Tensor, nn

from tino.errors import TinoError
from tino.grids import Grid, Interval
from tino.parts.fourier import Fourier
from tino.parts.law import LeastSquaresLaw, chebyshev, law_properties

LOCAL, VORTICITY = 0, 1  # families of terms
HIGHEST = 3  # order
SHOWN = 4  # decay rates in a read-out


class WavenumberLaw(LeastSquaresLaw):
    """û_k(i) = Σ_q c_qk F̂_qk, with F_q the terms of ``LocalTerms`` or ``VorticityTerms`` at t_{i-1}, one fit per k.

    The linear terms are û_k(i-1), f̂_k(i-1), f̂_k(i), perhaps a constant; with a ``clock``, times Chebyshev polynomials
    of the time up to this degree.
    """

    kind = "wavenumbers"
    lags, window = 1, 2

    def __init__(
        self, waves: Fourier, length: float, family: int, order: int, constant: bool, clock: int, times: int
    ) -> None:
        if family not in (LOCAL, VORTICITY) or not 0 <= order <= HIGHEST:
            raise TinoError(f"the terms are of family {family} and order {order}, expected 0 or 1, and 0 to {HIGHEST}")
        super().__init__(family=family, order=order, constant=constant, clock=clock, times=times)
        self.waves, self.length = waves, length
        self.properties = law_properties(constant, clock)
        self.products = (VorticityTerms if family == VORTICITY else LocalTerms)(waves, length)
        self.names = self.products.names(order)
        self.affine = not self.names and not clock
        self.real = bool(waves.sizes["mirrored"])
        numbers = (waves.sizes["waves"], self.count) + (() if self.real else (2,))
        self.weights = nn.Parameter(torch.zeros(numbers, dtype=torch.float64), requires_grad=False)

    # -- coordinates -----------------------------------------------------------------------------------------

    def state(self, u: Tensor) -> Tensor:
        return self.waves.state(u)

    def output(self, c: Tensor) -> Tensor:
        return self.waves.output(c)

    def inputs(self, f: Tensor) -> Tensor:
        return self.waves.state(f)

    # -- terms -----------------------------------------------------------------------------------------------

    @property
    def linear(self) -> int:
        return 3 + int(self.sizes["constant"])

    @property
    def count(self) -> int:
        """Terms in all."""
        return self.linear * (1 + self.sizes["clock"]) + len(self.names)

    def features(self, past: Tensor, g: Tensor, i: int | Tensor) -> Tensor:
        """F̂ (..., k, q): complex, or real on an interval."""
        v, before, now = (self.waves.waves(part) for part in (past[..., -1, :], g[..., -2, :], g[..., -1, :]))
        linear = torch.stack([v, before, now, *[torch.ones_like(v)] * int(self.sizes["constant"])], -1)
        if clock := self.sizes["clock"]:
            waves = chebyshev(i, self.sizes["times"], 1 + clock, past).expand(*v.shape[:-1], 1 + clock)
            linear = (linear[..., None] * waves[..., None, None, :]).flatten(-2)
        found = linear
        if self.names:
            found = torch.cat([linear, self.products(v, before, now, self.sizes["order"])], -1)
        return found.real if self.real else found

    def combine(self, features: Tensor, weights: Tensor) -> Tensor:
        if self.real:
            return (features * weights[..., None, :, :]).sum(-1)
        return self.waves.real((features * torch.view_as_complex(weights)[..., None, :, :]).sum(-1))

    # -- fits ------------------------------------------------------------------------------------------------

    def silent(self, f: Tensor, cut: float) -> Tensor:
        """The linear terms (k, q) of waves that the inputs f (n, x) do not have, but for rounding."""
        size = self.waves.spectrum(f).abs().square().mean(0).sqrt()
        every = 1 + self.sizes["clock"]
        found = torch.zeros(len(size), self.count, dtype=torch.bool)
        found[:, every : 3 * every] = (size <= cut * size.max())[:, None]
        return found

    def as_weights(self, solution: Tensor) -> Tensor:
        return solution[..., 0] if self.real else torch.view_as_real(solution[..., 0])

    def growth(self) -> float:
        """The largest factor of û_k(i-1)."""
        return 0.0 if self.sizes["clock"] else float(self._factors().max())

    def damp(self) -> None:
        self.weights.data[:, 0] /= self._factors().clamp_min(1.0).view(-1, *[1] * (self.weights.ndim - 2))

    def _factors(self) -> Tensor:
        own = self.weights.data[:, 0]
        return own.abs() if self.real else torch.linalg.vector_norm(own, dim=-1)

    def rates(self, dt: float) -> list[tuple[float, float]]:
        """|k| in radians and the rate at which û_k decays, -log|c| / dt, by growing |k|."""
        k = torch.stack(self.waves.wavenumbers(self.length)).square().sum(0).sqrt()
        rates = -self._factors().clamp_min(1e-300).log() / dt
        return sorted(zip(k.tolist(), rates.tolist(), strict=True))

    def readout(self, dt: float) -> tuple[str, ...]:
        if self.sizes["clock"]:
            return (f"linear terms with a clock{', and products' if self.sizes['order'] else ''}, for each wavenumber",)
        first = [f"{rate:.4g} at |k| = {k:.4g}" for k, rate in self.rates(dt)[:SHOWN]]
        return (f"decay rates: {', '.join(first)}",)


class LocalTerms:
    """Products of u, its derivatives and f at each point; f is the mean over the step, f' its change.

    Order 1: u², u³. Order 2: u⁴, u⁵, u f, u² f, and for each axis u_x², u u_xx. Order 3: for each axis u u_x², u² u_xx,
    u_x u_xx, u u_xxx, u_x f, and u f'. A term that is odd under a mirror is multiplied by i: c_qk then holds an outer
    derivative.
    """

    over = 2.0  # times the highest wavenumber: cubes do not alias

    def __init__(self, waves: Fourier, length: float) -> None:
        self.waves, self.length, self.axes = waves, length, len(waves.axes)

    def names(self, order: int) -> list[str]:
        found = [[], ["u²", "u³"], ["u⁴", "u⁵", "u f", "u² f"], ["u f'"]]
        for x in "xyz"[: self.axes]:
            found[2] += [f"u_{x}²", f"u u_{x}{x}"]
            found[3] += [f"u u_{x}²", f"u² u_{x}{x}", f"u_{x} u_{x}{x}", f"u u_{x}{x}{x}", f"u_{x} f"]
        return [name for part in found[: order + 1] for name in part]

    def __call__(self, v: Tensor, before: Tensor, now: Tensor, order: int) -> Tensor:
        """F̂ (..., k, q), in the order of ``names``."""
        k = [1j * one.to(v.real) for one in self.waves.wavenumbers(self.length)]
        spectra = [v]
        if order >= 2:
            spectra += [(before + now) / 2, *[v * a for a in k], *[v * a * a for a in k]]
        if order >= 3:
            spectra += [now - before, *[v * a * a * a for a in k]]
        fields = self.waves.fine(torch.stack(spectra))
        u = fields[0]
        found, odd = [u * u, u**3], [False, False]
        if order >= 2:
            f, d, dd = fields[1], fields[2 : 2 + self.axes], fields[2 + self.axes : 2 + 2 * self.axes]
            found += [u**4, u**5, u * f, u * u * f]
            for a in range(self.axes):
                found += [d[a] * d[a], u * dd[a]]
            if order >= 3:
                change, ddd = fields[2 + 2 * self.axes], fields[3 + 2 * self.axes :]
                odd += [False] * (len(found) - len(odd) + 1)
                found.append(u * change)
                for a in range(self.axes):
                    found += [u * d[a] * d[a], u * u * dd[a], d[a] * dd[a], u * ddd[a], d[a] * f]
                    odd += [False, False, True, True, True]
        odd += [False] * (len(found) - len(odd))
        turned = torch.tensor([1j if one else 1.0 for one in odd], device=v.device).to(v)
        return self.waves.back(torch.stack(found)).movedim(0, -1) * turned


class VorticityTerms:
    """Advection of a vorticity w by its own velocity, v = (ψ_y, -ψ_x) with -Δψ = w, in the first two axes.

    S(a, b) = v(a)·∇b + v(b)·∇a. Order 1: N = S(w, w). Order 2: S(w, f), S(w, Δw), S(w, N): the next terms of the step's
    expansion in the time step. Order 3: S(w, f'), S(w, Δf), S(f, f), S(w, S(w, f)), S(f, N), S(f, Δw), S(w, ΔΔw),
    S(Δw, Δw), S(w, ΔN), S(N, N), S(w, S(w, N)), S(w, S(w, Δw)), S(N, Δw).
    """

    over = 1.5  # squares do not alias

    def __init__(self, waves: Fourier, length: float) -> None:
        if len(waves.axes) < 2 or waves.sizes["mirrored"]:
            raise TinoError("vorticity needs a periodic box of two or three dimensions")
        self.waves, self.length = waves, length

    def names(self, order: int) -> list[str]:
        third = "S(w,f') S(w,Δf) S(f,f) S(w,S(w,f)) S(f,N) S(f,Δw) S(w,ΔΔw) S(Δw,Δw) S(w,ΔN) S(N,N) S(w,S(w,N))"
        found = ["", "N=S(w,w)", "S(w,f) S(w,Δw) S(w,N)", f"{third} S(w,S(w,Δw)) S(N,Δw)"]
        return [name for part in found[: order + 1] for name in part.split()]

    def __call__(self, v: Tensor, before: Tensor, now: Tensor, order: int) -> Tensor:
        k = [one.to(v.real) for one in self.waves.wavenumbers(self.length)]
        plane = k[0].square() + k[1].square()
        to_psi = torch.where(plane > 0, 1 / plane, 0.0)
        square = sum((one.square() for one in k[1:]), k[0].square())
        laplace = -square / torch.where(square.max() > 0, square.max(), 1.0)  # to one size

        def on_points(a: Tensor) -> Tensor:  # a, and its velocity
            return self.waves.fine(torch.stack([a, 1j * k[1] * to_psi * a, -1j * k[0] * to_psi * a]))

        def advected(a: Tensor, b: Tensor) -> Tensor:  # the divergence form of S
            flux = self.waves.back(torch.stack([a[1] * b[0] + b[1] * a[0], a[2] * b[0] + b[2] * a[0]]))
            return 1j * (k[0] * flux[0] + k[1] * flux[1])

        w = on_points(v)
        n = advected(w, w)
        found = [n]
        if order >= 2:
            f, lv = (before + now) / 2, laplace * v
            on_f, on_lw, on_n = on_points(f), on_points(lv), on_points(n)
            wf, wlw, wn = advected(w, on_f), advected(w, on_lw), advected(w, on_n)
            found += [wf, wlw, wn]
            if order >= 3:
                found += [advected(w, on_points(now - before)), advected(w, on_points(laplace * f))]
                found += [advected(on_f, on_f), advected(w, on_points(wf)), advected(on_f, on_n), advected(on_f, on_lw)]
                found += [advected(w, on_points(laplace * lv)), advected(on_lw, on_lw)]
                found += [advected(w, on_points(laplace * n)), advected(on_n, on_n), advected(w, on_points(wn))]
                found += [advected(w, on_points(wlw)), advected(on_n, on_lw)]
        return torch.stack(found, -1)


def box_length(grid: Grid) -> float:
    return grid.stop - grid.start if isinstance(grid, Interval) else getattr(grid, "length", math.nan)
