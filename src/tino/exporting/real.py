"""Real numbers in place of complex ones: inside ``real_numbers()`` a complex tensor is a pair of real tensors.

Exported graphs hold neither complex numbers nor FFTs. The parts of models that compute with waves need not know: the
functions that make complex tensors return a ``Pair`` instead, and FFTs become products with matrices of cosines and
sines.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tino.exporting.precise import PRECISE


class Pair:
    """a + i b, with the arithmetic and the shapes of a complex tensor."""

    def __init__(self, real: Tensor, imag: Tensor) -> None:
        self.real, self.imag = real, imag

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _apply(func, args, kwargs or {})

    # -- arithmetic ------------------------------------------------------------------------------------------

    def __mul__(self, other: Any) -> "Pair":
        if not isinstance(other, Pair | complex):
            return Pair(self.real * other, self.imag * other)
        a, b, c, d = self.real, self.imag, other.real, other.imag
        return Pair(a * c - b * d, a * d + b * c)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Pair":
        return Pair(self.real / other, self.imag / other)

    def __add__(self, other: Any) -> "Pair":
        if isinstance(other, Pair | complex):
            return Pair(self.real + other.real, self.imag + other.imag)
        real = self.real + other
        return Pair(real, self.imag.expand_as(real))

    __radd__ = __add__

    def __neg__(self) -> "Pair":
        return Pair(-self.real, -self.imag)

    def __sub__(self, other: Any) -> "Pair":
        return self + (-other)

    def __rsub__(self, other: Any) -> "Pair":
        return -self + other

    # -- shapes ----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> torch.Size:
        return self.real.shape

    @property
    def ndim(self) -> int:
        return self.real.ndim

    @property
    def device(self) -> torch.device:
        return self.real.device

    def __getitem__(self, place: Any) -> "Pair":
        return Pair(self.real[place], self.imag[place])

    def __iter__(self) -> Any:
        return iter([self[n] for n in range(self.shape[0])])

    def __getattr__(self, name: str) -> Callable[..., "Pair"]:
        """A method that treats both parts alike, such as ``flatten``."""
        if name not in ALIKE:
            raise AttributeError(f"{name} is not known of a pair of real tensors")
        return lambda *given: Pair(getattr(self.real, name)(*given), getattr(self.imag, name)(*given))

    def to(self, like: Any) -> "Pair":
        """As a tensor, a pair, or a complex type."""
        real = REAL[like] if isinstance(like, torch.dtype) else like.real
        return Pair(self.real.to(real), self.imag.to(real))

    def conj(self) -> "Pair":
        return Pair(self.real, -self.imag)

    def index_copy(self, dim: int, index: Tensor, source: "Pair") -> "Pair":
        return Pair(*(getattr(self, part).index_copy(dim, index, getattr(source, part)) for part in PARTS))

    def index_add(self, dim: int, index: Tensor, source: "Pair") -> "Pair":
        return Pair(*(getattr(self, part).index_add(dim, index, getattr(source, part)) for part in PARTS))


PARTS = ("real", "imag")
REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}
ALIKE = {"flatten", "unflatten", "view", "new_zeros", "sum", "movedim", "expand"}


class real_numbers(TorchFunctionMode):
    """The context in which complex tensors are pairs."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _apply(func, args, kwargs or {})


def _apply(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if func in MADE:
        return MADE[func](*args, **kwargs)
    if func in SCALED:
        args = _as_tensors(args)
    flat = [one for arg in args for one in (arg if isinstance(arg, list | tuple) else [arg])]
    if not any(isinstance(one, Pair | complex) for one in flat):
        return func(*args, **kwargs)
    if func in JOINED:
        pairs = [_pair(one) for one in args[0]]
        return Pair(*(func([getattr(one, part) for one in pairs], *args[1:], **kwargs) for part in PARTS))
    if func in OF_PAIRS:
        return OF_PAIRS[func](*args, **kwargs)
    raise NotImplementedError(f"{func} is not known of a pair of real tensors")


def _as_tensors(args: Sequence[Any]) -> Sequence[Any]:
    """Numbers beside float64 tensors as tensors: ONNX would round them to float32."""
    double = next((one for one in args if isinstance(one, Tensor) and one.dtype == torch.float64), None)
    if double is None:
        return args
    return [torch.tensor(one, dtype=torch.float64) if type(one) in (int, float) else one for one in args]


def _pair(value: Any) -> Pair:
    return value if isinstance(value, Pair) else Pair(value, torch.zeros_like(value))


def _binary(name: str) -> Callable[[Any, Any], Pair]:
    """An operator of a real tensor with a pair, or with a complex number."""

    def of(one: Any, other: Any) -> Pair:
        return getattr(_pair(one) if isinstance(one, Tensor) else one, name)(other)

    return of


def _exp(v: Pair) -> Pair:
    size = torch.exp(v.real)
    return Pair(size * torch.cos(v.imag), size * torch.sin(v.imag))


def _where(condition: Tensor, one: Any, other: Any) -> Pair:
    one, other = _pair(one), _pair(other)
    return Pair(*(torch.where(condition, getattr(one, part), getattr(other, part)) for part in PARTS))


def _tensor(data: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(data, list) and any(isinstance(one, complex) for one in data):
        return Pair(*(torch.tensor([getattr(one, part) for one in data], **kwargs) for part in PARTS))
    return torch.tensor(data, *args, **kwargs)


# -- transforms by matrices ----------------------------------------------------------------------------------


_KNOWN: dict[tuple[int, int, int, torch.dtype], tuple[Tensor, Tensor]] = {}


def _dft(n: int, waves: int, over: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin of 2 π j k / n, over a number, (n, waves): constants of a graph if known before it is traced."""
    key = n, waves, over, like.dtype
    if key in _KNOWN:
        return _KNOWN[key]
    angle = 2 * math.pi / n * (torch.outer(torch.arange(n), torch.arange(waves)) % n).double()
    found = (torch.cos(angle) / over).to(like.dtype), (torch.sin(angle) / over).to(like.dtype)
    return found if torch.compiler.is_exporting() else _KNOWN.setdefault(key, found)


def _turned(v: Pair, cos: Tensor, sin: Tensor, sign: int, dim: int) -> Pair:
    """Σ_j v_j e^{sign i α_jk} along one axis."""
    a, b = v.real.movedim(dim, -1), v.imag.movedim(dim, -1)
    found = Pair(a @ cos - sign * (b @ sin), b @ cos + sign * (a @ sin))
    return Pair(found.real.movedim(-1, dim), found.imag.movedim(-1, dim))


def _fftn(u: Tensor, dim: Sequence[int], norm: str, half: bool = False) -> Pair:
    assert norm == "forward"
    n = u.shape[dim[-1]]
    cos, sin = _dft(n, n // 2 + 1 if half else n, n, u)
    v = Pair(u @ cos, -(u @ sin))
    for axis in dim[:-1]:
        n = u.shape[axis]
        v = _turned(v, *_dft(n, n, n, u), -1, axis)
    return v


def _ifftn(v: Pair, dim: Sequence[int], norm: str) -> Pair:
    assert norm == "forward"
    for axis in dim:
        n = v.shape[axis]
        v = _turned(v, *_dft(n, n, 1, v.real), 1, axis)
    return v


def _irfftn(v: Pair, points: Sequence[int], dim: Sequence[int], norm: str) -> Tensor:
    v, n = _ifftn(v, dim[:-1], norm), points[-1]
    k = torch.arange(n // 2 + 1)
    twice = torch.where((k > 0) & (2 * k != n), 2.0, 1.0).to(v.real)  # a wave also stands for its conjugate
    cos, sin = _dft(n, n // 2 + 1, 1, v.real)
    return (v.real * twice) @ cos.T - (v.imag * twice) @ sin.T


MADE: dict[Any, Callable[..., Any]] = {  # what would give complex tensors, or needs them
    **PRECISE,
    torch.tensor: _tensor,
    torch.complex: Pair,
    torch.view_as_complex: lambda v: Pair(v[..., 0], v[..., 1]),
    torch.view_as_real: lambda v: torch.stack([v.real, v.imag], -1),
    torch.fft.fftn: _fftn,
    torch.fft.ifftn: _ifftn,
    torch.fft.rfftn: partial(_fftn, half=True),
    torch.fft.irfftn: _irfftn,
}
OPERATORS = ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__")
SCALED = {getattr(Tensor, name) for name in (*OPERATORS, "__truediv__", "__rtruediv__", "mul", "div", "add", "sub")}
JOINED = (torch.stack, torch.cat)
OF_PAIRS: dict[Any, Callable[..., Any]] = {
    torch.exp: _exp,
    torch.where: _where,
    torch.zeros_like: lambda v: v * 0.0,
    torch.ones_like: lambda v: v * 0.0 + 1.0,
    **{
        getattr(Tensor, f"__{name}__"): _binary(f"__{name}__") for name in ("add", "radd", "sub", "rsub", "mul", "rmul")
    },
    Tensor.mul: _binary("__mul__"),
    Tensor.add: _binary("__add__"),
    Tensor.sub: _binary("__sub__"),
    Tensor.to: lambda one, like: one.to(like.real),
}
