"""References: arrays that can be written. See `weft.new_ref`."""

from weft.base.facades import public_names
from weft.core.effects import RefType as AbstractRef
from weft.refs.ref_functions import addupdate, empty_ref, free_ref, freeze, get, set, swap
from weft.refs.reference import Ref, new_ref

__all__ = [
    "AbstractRef", "Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "set",
    "swap",
]  # fmt: skip

__dir__ = public_names(globals())
