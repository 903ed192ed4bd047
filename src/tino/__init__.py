"""tino: learn how physical systems respond over time.

train, test = tino.dataset(tino.problem("burgers-0.1"))
model = tino.build("spod-trtino", train)
tino.fit(model, train)
tino.evaluate(model, test), tino.certify(model, test)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tino.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from tino.public import *  # noqa: F403
    from tino.public import __all__ as __all__
else:

    def __getattr__(name: str) -> Any:
        """A public name, fetched when it is first used: importing torch takes seconds, which ``tino --help`` saves."""
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module 'tino' has no attribute '{name}'")
        public = import_module("tino.public")
        if name in ("__all__", *public.__all__):
            globals()[name] = getattr(public, name)
        if name not in globals():  # a module such as tino.problems is there by now
            raise AttributeError(f"module 'tino' has no attribute '{name}'")
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *import_module("tino.public").__all__})
