"""Names where programs written for JAX look for them."""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use
from weft.callbacks.primitives import io_callback
from weft.experimental import layout

if TYPE_CHECKING:
    from weft.experimental import checkify as checkify

__all__ = ["checkify", "io_callback", "layout"]

# Imported on first use.
_LAZY_MODULES = ("weft.experimental.checkify",)

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES)
