"""Settings for a `with` block, or for a function that they decorate: each changes one setting in
this thread or task only.

The settings themselves, with the reasons for their defaults, are those of `weft.config`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from weft import config
from weft.base.exact_keys import exact_key

__all__ = [
    "allow_f16_reductions", "array_garbage_collection_guard", "auto_pcast",
    "check_tracer_leaks", "checking_leaks", "default_device", "default_matmul_precision",
    "default_prng_impl", "disable_jit", "enable_checks", "enable_custom_prng",
    "explain_cache_misses", "jax2tf_associative_scan_reductions", "legacy_prng_key",
    "log_compiles", "make_user_context", "no_execution", "no_tracing", "numpy_dtype_promotion",
    "numpy_rank_promotion", "remove_size_one_mesh_axis_from_type", "softmax_custom_jvp",
    "thread_guard", "threefry_partitionable", "transfer_guard", "transfer_guard_device_to_device",
    "transfer_guard_device_to_host", "transfer_guard_host_to_device",
]  # fmt: skip

Block = contextlib.AbstractContextManager[None]


# ---- how programs run ----------------------------------------------------------------------------


def disable_jit(disable: bool = True) -> Block:
    """A `with` block in which jitted functions run step by step, on arrays with values.

    `jit` calls its function; `scan`, `map`, `fori_loop`, `while_loop`, `cond` and `switch` run
    their functions in Python as often as the values say, so that a debugger, `print` and Python's
    own `if` see what happens. A condition that is traced nevertheless (inside of `vmap` or
    `make_jaxpr`) is traced as ever, and so is a scan of no steps, whose results only tracing tells
    the types of. Each operation is still compiled.

    disable: False for a block inside of another one, in which functions are jitted again.

    >>> import weft
    >>> @weft.jit
    ... def double(x):
    ...     print("x is", x)
    ...     return 2 * x
    >>> with weft.disable_jit():
    ...     y = double(1.5)
    x is 1.5
    """
    return config.override(disable_jit=disable)


def default_device(new_val: Any = None) -> Block:
    """A `with` block in which arrays are made, and uncommitted arrays are computed, on another
    device.

    `new_val` is a device (an entry of `weft.devices()`), the name of a platform, which stands for
    its first device, or None for the first device of all. Arrays made in the block are not
    committed: outside the block, operations move them to the default device there. Raises
    ValueError for anything else.

    >>> import weft
    >>> with weft.default_device(weft.devices()[1]):
    ...     x = weft.numpy.ones(3)
    >>> x.devices() == {weft.devices()[1]}, x.committed
    (True, False)
    """
    return config.override(default_device=new_val)


def default_matmul_precision(new_val: str | None = None) -> Block:
    """A `with` block in which products without a `precision=` have this one.

    `new_val` is None (the compiler's), "default" (also "fastest" and "bfloat16"), "high"
    ("bfloat16_3x", "tensorfloat32"), "highest" ("float32"), or the name of an algorithm such as
    "BF16_BF16_F32" or "TF32_TF32_F32_X3". On the CPU all compute the same. Raises ValueError for
    another name.

    >>> import weft
    >>> with weft.default_matmul_precision("tensorfloat32"):
    ...     print(
    ...         weft.make_jaxpr(weft.numpy.dot)(np.ones(2), np.ones(2)).eqns[0].params["precision"]
    ...     )
    ('HIGH', 'HIGH')
    """
    return config.override(default_matmul_precision=new_val)


def no_execution(new_val: bool = True) -> Block:
    """A `with` block in which running an executable raises RuntimeError; tracing works.

    >>> import weft
    >>> with weft.no_execution():
    ...     weft.eval_shape(weft.numpy.sin, 1.0)
    ShapeDtypeStruct(shape=(), dtype=f32, weak_type=True)
    """
    return config.override(no_execution=new_val)


def no_tracing(new_val: bool = True) -> Block:
    """A `with` block in which tracing a jitted function or the body of a loop raises RuntimeError.

    With it, a program can check that everything is compiled before a certain line.

    >>> import weft
    >>> step = weft.jit(lambda x: x + 1.0)
    >>> _ = step(1.0)
    >>> with weft.no_tracing():
    ...     step(2.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return config.override(no_tracing=new_val)


# ---- types and shapes ----------------------------------------------------------------------------


def numpy_dtype_promotion(new_val: str) -> Block:
    """A `with` block with rules for operands of different dtypes: "standard" converts them to a
    common one, "strict" raises DTypeError unless all but one are Python numbers.

    >>> import weft.numpy as jnp
    >>> with weft.numpy_dtype_promotion("strict"):
    ...     (jnp.ones(2) + 1).dtype
    dtype('float32')
    """
    return config.override(numpy_dtype_promotion=new_val)


def numpy_rank_promotion(new_val: str) -> Block:
    """A `with` block with rules for elementwise operations on arrays of different ranks: "allow"
    broadcasts them, "warn" too with a UserWarning, "raise" raises ShapeError. Arrays without
    dimensions combine with all others.

    >>> import weft, weft.numpy as jnp
    >>> with weft.numpy_rank_promotion("raise"):
    ...     jnp.ones((2, 3)) + jnp.ones(3)
    Traceback (most recent call last):
        ...
    weft.errors.ShapeError: add: the operands have different ranks, ...
      ...
    """
    return config.override(numpy_rank_promotion=new_val)


def allow_f16_reductions(new_val: bool = True) -> Block:
    """A `with` block in which, with False, sums of float16 and bfloat16 in these dtypes raise
    WeftValueError (those of `weft.lax`; `weft.numpy.sum` adds up in float32).

    >>> import weft
    >>> with weft.allow_f16_reductions(False):
    ...     weft.numpy.ones(3, "float16").sum()
    Array(3., dtype=float16)
    """
    return config.override(allow_f16_reductions=new_val)


# ---- random keys ---------------------------------------------------------------------------------


def default_prng_impl(new_val: str) -> Block:
    """A `with` block in which keys that name no generator are of this one: "threefry2x32", "rbg",
    "unsafe_rbg", or one defined by `weft.extend.random`. Raises ValueError for an unknown name.

    >>> import weft
    >>> with weft.default_prng_impl("rbg"):
    ...     weft.random.key(0).dtype
    key<rbg>
    """
    return config.override(default_prng_impl=new_val)


def threefry_partitionable(new_val: bool = True) -> Block:
    """A `with` block in which, with False, the keys and bits of threefry are those of JAX before
    its release 0.5: other numbers, equally random.

    >>> import weft
    >>> with weft.threefry_partitionable(False):
    ...     weft.random.bits(weft.random.key(7))
    Array(3625411723, dtype=uint32)
    """
    return config.override(threefry_partitionable=new_val)


def enable_custom_prng(new_val: bool = True) -> Block:
    """A `with` block in which `weft.random.PRNGKey` makes typed keys, as `weft.random.key` does.

    >>> import weft
    >>> with weft.enable_custom_prng():
    ...     weft.random.PRNGKey(0).dtype
    key<fry>
    """
    return config.override(enable_custom_prng=new_val)


def legacy_prng_key(new_val: str) -> Block:
    """A `with` block that says what becomes of keys without a type, which are arrays of bits:
    "allow" takes them, "warn" too with a UserWarning, "error" raises WeftValueError.

    >>> import weft
    >>> with weft.legacy_prng_key("error"):
    ...     float(weft.random.uniform(weft.random.key(0))) < 1.0
    True
    """
    return config.override(legacy_prng_key=new_val)


# ---- what is checked and told --------------------------------------------------------------------


def check_tracer_leaks(new_val: bool = True) -> Block:
    """A `with` block in which a traced value that outlives its trace raises LeakedTracerError when
    the trace ends, rather than where it is used. Looking for them costs time.

    >>> import weft
    >>> kept = []
    >>> with weft.check_tracer_leaks():
    ...     weft.jit(kept.append)(1.0)
    Traceback (most recent call last):
        ...
    weft.errors.LeakedTracerError: a value of class Tracer escaped from jit of ...
      ...
    """
    return config.override(check_tracer_leaks=new_val)


def checking_leaks() -> Block:
    """The `with` block of `check_tracer_leaks`.

    >>> import weft
    >>> with weft.checking_leaks():
    ...     weft.jit(lambda x: x + 1.0)(1.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return check_tracer_leaks()


def enable_checks(new_val: bool = True) -> Block:
    """A `with` block in which the types of every recorded jaxpr are checked: weft's setting
    `check_jaxprs`.

    >>> import weft
    >>> with weft.enable_checks():
    ...     weft.config.settings().check_jaxprs
    True
    """
    return config.override(check_jaxprs=new_val)


def explain_cache_misses(new_val: bool = True) -> Block:
    """A `with` block in which the log says why a function is traced or compiled again.

    >>> import weft
    >>> with weft.explain_cache_misses():
    ...     weft.config.host_settings().explain_cache_misses
    True
    """
    return config.override(explain_cache_misses=new_val)


def log_compiles(new_val: bool = True) -> Block:
    """A `with` block in which the logger "weft" tells, at the level WARNING, of all that is traced
    and compiled, with the time that it took.

    >>> import weft
    >>> with weft.log_compiles():
    ...     weft.config.host_settings().log_compiles
    True
    """
    return config.override(log_compiles=new_val)


def array_garbage_collection_guard(new_val: str | None) -> Block:
    """A `with` block for arrays that only Python's garbage collector of cycles can free. "allow"
    permits them. "log" and "fatal" raise NotImplementedError.

    >>> import weft
    >>> with weft.array_garbage_collection_guard("allow"):
    ...     x = weft.numpy.ones(3)
    """
    return config.override(array_garbage_collection_guard=new_val)


def thread_guard(new_val: bool = True) -> Block:
    """A `with` block in which, where several processes work together, only this thread may start
    their common programs. In one process it allows everything.

    >>> import weft
    >>> with weft.thread_guard():
    ...     x = weft.numpy.ones(3)
    """
    return config.override(thread_guard=new_val)


# ---- transfers -----------------------------------------------------------------------------------

# The levels and what they do are those of JAX's page on the subject:
# https://docs.jax.dev/en/latest/transfer_guard.html


def transfer_guard(new_val: str) -> Block:
    """A `with` block that watches copies between the host and devices, and among devices.

    "allow" allows all. "log" logs, and "disallow" refuses with RuntimeError, copies that happen by
    themselves: NumPy arrays and numbers that become operands, arrays that a program moves, and (on
    an accelerator) values read by Python. "log_explicit" and "disallow_explicit" also cover copies
    by `device_put` and `device_get`.

    >>> import weft
    >>> x = weft.numpy.ones(3)
    >>> with weft.transfer_guard("disallow"):
    ...     y = x * x
    ...     z = weft.device_put(np.ones(3))
    """
    return config.override(transfer_guard=new_val)


def transfer_guard_host_to_device(new_val: str) -> Block:
    """As `transfer_guard`, for copies from the host to devices only.

    >>> import weft
    >>> with weft.transfer_guard_host_to_device("disallow"):
    ...     weft.numpy.sin(np.ones(5))
    Traceback (most recent call last):
        ...
    weft.errors.GuardError: a copy from the host to a device is not allowed here...
      ...
    """
    return config.override(transfer_guard_host_to_device=new_val)


def transfer_guard_device_to_device(new_val: str) -> Block:
    """As `transfer_guard`, for copies from one device to another only.

    >>> import weft
    >>> with weft.transfer_guard_device_to_device("disallow"):
    ...     x = weft.device_put(np.ones(3), weft.devices()[1])
    """
    return config.override(transfer_guard_device_to_device=new_val)


def transfer_guard_device_to_host(new_val: str) -> Block:
    """As `transfer_guard`, for copies from devices to the host only; a CPU's memory is the host's.

    >>> import weft
    >>> with weft.transfer_guard_device_to_host("disallow"):
    ...     x = weft.device_get(weft.numpy.ones(3))
    """
    return config.override(transfer_guard_device_to_host=new_val)


# ---- settings of JAX that choose nothing here ----------------------------------------------------


def softmax_custom_jvp(new_val: bool = True) -> Block:
    """A `with` block with one of JAX's settings: which formula the derivative of `softmax` uses.
    Both formulas give the same numbers up to rounding, so weft stores the setting and uses its own
    formula.

    >>> import weft
    >>> with weft.softmax_custom_jvp():
    ...     weft.config.jax_softmax_custom_jvp
    True
    """
    return config.override(softmax_custom_jvp=new_val)


def jax2tf_associative_scan_reductions(new_val: bool = True) -> Block:
    """A `with` block with a setting of JAX's about its exports to TensorFlow; it is kept.

    >>> import weft
    >>> with weft.jax2tf_associative_scan_reductions():
    ...     weft.config.jax2tf_associative_scan_reductions
    True
    """
    return config.override(jax2tf_associative_scan_reductions=new_val)


def auto_pcast(new_val: bool = True) -> Block:
    """A `with` block with one of JAX's settings: whether values that vary along fewer mesh axes are
    cast when they meet others. weft casts them; False raises NotImplementedError.

    >>> import weft
    >>> with weft.auto_pcast():
    ...     x = weft.numpy.ones(3)
    """
    return config.override(auto_pcast=new_val)


def remove_size_one_mesh_axis_from_type(new_val: bool = True) -> Block:
    """A `with` block with one of JAX's settings, about shardings in types. weft's types have no
    shardings: True raises NotImplementedError.

    >>> import weft
    >>> with weft.remove_size_one_mesh_axis_from_type(False):
    ...     x = weft.numpy.ones(3)
    """
    return config.override(remove_size_one_mesh_axis_from_type=new_val)


# ---- contexts of users ---------------------------------------------------------------------------


class UserContext:
    """A value of a program's own that traced functions may read: see `make_user_context`."""

    def __init__(self, default_value: Any) -> None:
        self._default = default_value

    @property
    def value(self) -> Any:
        """The value in force here."""
        return dict(config.settings().user_contexts).get(self, self._default)

    @contextlib.contextmanager
    def __call__(self, new_value: Any) -> Iterator[None]:
        """A `with` block in which the context has this hashable value."""
        others = [pair for pair in config.settings().user_contexts if pair[0] is not self]
        is_default = exact_key(new_value) == exact_key(self._default)
        mine = [] if is_default else [(self, new_value)]
        with config.override(user_contexts=(*others, *mine)):
            yield


def make_user_context(default_value: Any = None) -> UserContext:
    """A context that functions read as `.value`, set for a block by calling it with a new value.

    default_value: the value outside of such blocks. weft traces jitted functions once for each
    value, which must be hashable.

    >>> import weft
    >>> scale = weft.make_user_context(1.0)
    >>> f = weft.jit(lambda x: scale.value * x)
    >>> with scale(10.0):
    ...     f(2.0)
    Array(20., dtype=float32, weak_type=True)
    >>> f(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return UserContext(default_value)
