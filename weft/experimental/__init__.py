"""Names where programs written for JAX look for them."""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use
from weft.callbacks.primitives import io_callback
from weft.experimental import layout

if TYPE_CHECKING:
    from weft.experimental import checkify as checkify
    from weft.experimental import hijax as hijax
    from weft.experimental import jet as jet
    from weft.experimental.hijax import cur_qdd

__all__ = ["checkify", "cur_qdd", "hijax", "io_callback", "jet", "layout"]

# Imported on first use.
_LAZY_MODULES = ("weft.experimental.checkify", "weft.experimental.hijax", "weft.experimental.jet")
_LAZY_NAMES = {"weft.experimental.hijax": "cur_qdd"}

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES, _LAZY_NAMES)
