"""The names of jax2tf, which hands programs to TensorFlow; each raises at the call."""

from __future__ import annotations

from weft.base.facades import public_names
from weft.experimental.unavailable import refusing

__all__ = [
    "call_tf",
    "convert",
    "dtype_of_val",
    "eval_polymorphic_shape",
    "split_to_logical_devices",
]

__dir__ = public_names(globals())

_WHY = "it writes TensorFlow graphs, which weft does not"
_WANTED = "weft.export, whose serialized StableHLO TensorFlow runs with XlaCallModule"

call_tf = refusing("jax2tf.call_tf", _WHY)
convert = refusing("jax2tf.convert", _WHY, _WANTED)
dtype_of_val = refusing("jax2tf.dtype_of_val", _WHY)
eval_polymorphic_shape = refusing("jax2tf.eval_polymorphic_shape", _WHY)
split_to_logical_devices = refusing("jax2tf.split_to_logical_devices", _WHY)
