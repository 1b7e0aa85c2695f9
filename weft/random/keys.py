"""Random keys: making them from seeds, deriving others from them, and their bits.

A key is the whole state of a random generator, as a value: a function of a key returns the
same numbers every time, and new numbers come from new keys, which `split` and `fold_in` derive.
Typed keys carry their generator in their dtype; functions also take the bare bits of a threefry
key, as `PRNGKey` makes them.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array, put, signature_of, to_layout
from weft.arrays.conversion import as_array
from weft.core.trace import bottom_trace, current_trace
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftOverflowError, WeftTypeError, api_boundary
from weft.kinds.arguments import NEVER
from weft.kinds.checks import convert
from weft.kinds.kind import Arguments, Kind
from weft.ops.structural import extended_dtypes
from weft.ops.structural.extended_dtypes import KeyDType, clone_key
from weft.random.draw_arguments import Key, Shape, UnusedKey, check_keys
from weft.random.generator import Generator, generator_named, register
from weft.random.philox import RBG, UNSAFE_RBG
from weft.random.streams import draw_function, one_equation, stream_of
from weft.random.threefry import THREEFRY, default_generator
from weft.sharding import Sharding

__all__ = [
    "PRNGKey", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "split",
    "wrap_key_data",
]  # fmt: skip


register(RBG)
register(UNSAFE_RBG)


def _word(value: Any, call: Arguments) -> Any:
    if isinstance(value, (int, np.integer, np.bool_)):
        lowest = -(1 << 31) if isinstance(value, np.integer) else 0
        fits = lowest <= int(value) < 1 << 32
        if not fits and not (isinstance(value, np.integer) and dtypes.keeps_low_bits()):
            message = f"{int(value)} does not fit in 32 bits without a sign"
            fix = Fix("split", "fold larger numbers in piece by piece")
            raise WeftOverflowError(message, got=value, wanted="0 to 4294967295", fix=fix)
        return np.uint32(int(value) % (1 << 32))
    of = type_of(value)
    wanted = "an integer, or an integer array without dimensions"
    if of.dtype not in dtypes.BITS and not (of.dtype in dtypes.FLOATING and config.lenient()):
        message = f"takes an integer, not {of}"
        fix = Fix("convert", "convert it: data.astype('uint32')", {"dtype": "uint32"})
        raise DTypeError(message, got=str(of), wanted=wanted, fix=fix)
    if of.shape:
        message = f"takes one integer, not an array of shape {of.shape}"
        fix = Fix("vmap", "map over it: weft.vmap(weft.random.fold_in, (None, 0))(key, data)", {})
        wanted = "an integer array without dimensions"
        raise ShapeError(message, got=str(of), wanted=wanted, fix=fix)
    return value


Word = Annotated[Any, Kind(_word, "an integer of 32 bits", (0.5, -1), 1, static=False, plain=NEVER)]


@api_boundary
def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Array:
    """A random key from a seed.

    Args:
        seed (int or Array): An integer, or an integer array without dimensions. Of a Python integer
            the low 32 bits count, or with `enable_x64` all 64.
        impl: The name of the generator: "threefry2x32" (the default: see the setting
            `default_prng_impl`), "rbg" or "unsafe_rbg", whose bits are Philox's, or one defined by
            `weft.extend.random`.
        dtype: A dtype of keys, which says the same as `impl`.

    Raises OverflowError for a seed of more than 64 bits, WeftTypeError for one that is no integer.

    >>> import weft
    >>> weft.random.key_data(weft.random.key(7))
    Array([0, 7], dtype=uint32)
    """
    return _make_key(seed, _generator(impl, dtype), True)


@api_boundary
def PRNGKey(seed: Any, *, impl: Any = None) -> Array:
    """A random key from a seed as an array of its bits (uint32), without a type of its own.

    For code that was written before there were typed keys; new code uses `key`.

    seed: an integer, or an integer array without dimensions, as in `key`; impl: the name of the
    generator, as in `key`.

    >>> weft.random.PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    typed = config.settings().enable_custom_prng
    return _make_key(seed, _generator(impl), typed)


@api_boundary
def key_dtype(impl_spec: Any = None) -> KeyDType:
    """The dtype of the keys of a generator, named as in `key`. Raises WeftValueError as it does.

    impl_spec: the name of a generator; None for the default one.

    >>> weft.random.key_dtype("rbg") == weft.random.key(0, impl="rbg").dtype
    True
    """
    return _generator(impl_spec).dtype


def _generator(impl: Any, dtype: Any = None) -> Generator:
    if isinstance(dtype, KeyDType):
        if impl is not None and _generator(impl).dtype is not dtype:
            message = "impl and dtype name different generators"
            got = f"impl={impl!r}, dtype={dtype}"
            raise WeftTypeError(message, got=got, wanted="one of them")
        return dtype.implementation
    if dtype is not None:
        message = f"{dtype!r} is no dtype of random keys"
        wanted = "the dtype of a key, or weft.random.key_dtype()"
        raise DTypeError(message, got=f"dtype={dtype!r}", wanted=wanted)
    if impl is None:
        return default_generator()
    if isinstance(impl, Generator):
        return impl
    if isinstance(impl, KeyDType):
        return impl.implementation
    if isinstance(impl, str):
        return generator_named(impl)
    got = f"impl={impl!r:.80} of class {type(impl).__name__}"
    wanted = 'a name such as "threefry2x32"'
    raise WeftTypeError("impl is the name of a random generator", got=got, wanted=wanted)


def _make_key(seed: Any, generator: Generator, typed: bool) -> Any:
    if isinstance(seed, (int, np.integer, np.bool_)) or (
        isinstance(seed, np.ndarray) and not seed.ndim and seed.dtype.kind in "iub"
    ):
        number = int(seed)
        if not -(1 << 63) <= number < 1 << 63 and not isinstance(seed, (np.generic, np.ndarray)):
            message = f"the seed {number} does not fit in 64 bits"
            fix = Fix("smaller", "take a smaller one, such as seed % 2**63")
            raise WeftOverflowError(message, got=number, fix=fix)
        return _make_key_of_number(number, generator, typed)
    if isinstance(seed, np.ndarray) and seed.dtype.kind in "iub":
        seed = as_array(seed)  # with dimensions
    of = getattr(seed, "type", None)
    if not isinstance(of, ArrayType) or of.dtype not in dtypes.BITS:
        got = repr(of) if isinstance(of, ArrayType) else f"{seed!r:.60}"
        already = isinstance(of, ArrayType) and isinstance(of.dtype, KeyDType)
        raise WeftTypeError(
            f"takes an integer as its seed, not {'a key' if already else got}",
            got=f"{got} of class {type(seed).__name__}",
            wanted="an integer, or an integer array without dimensions",
            fix=Fix("use_key", "use the key itself, or split it", {})
            if already
            else Fix("integer", "pass an integer, such as 0", {"seed": 0}),
        )
    if of.shape:
        message = f"takes one seed, not an array of shape {of.shape}"
        wanted = "an integer array without dimensions"
        name = "key" if typed else "PRNGKey"
        fix = Fix("vmap", f"map over the seeds: weft.vmap(weft.random.{name})(seeds)", {})
        raise ShapeError(message, got=str(of), wanted=wanted, fix=fix)
    if offset := config.settings().random_seed_offset:
        seed = seed + of.dtype.type(offset % (1 << dtypes.itemsize_bits(of.dtype)))
    return _seed(seed, generator=generator, typed=typed)


def _make_key_of_number(number: int, generator: Generator, typed: bool) -> Any:
    settings = config.settings()
    number += settings.random_seed_offset
    # Python's integers have no width: `enable_x64` determines how many bits count.
    if settings.enable_x64:
        seed: Any = np.uint64(number & 0xFFFFFFFFFFFFFFFF)
    else:
        seed = np.uint32(number & 0xFFFFFFFF)
    if generator is THREEFRY and current_trace() is bottom_trace():
        # The most frequent case costs no compilation: the bits are those of the seed.
        bits = np.array([int(seed) >> 32, int(seed) & 0xFFFFFFFF], np.uint32)
        out = put(bits, ArrayType((2,), dtypes.uint32))
        return _view(out, ArrayType((), generator.dtype)) if typed else out
    return _seed(seed, generator=generator, typed=typed)


def _key_of(seed: Any, *, generator: Generator, typed: bool) -> Any:
    if seed.dtype == dtypes.bool_:
        seed = convert(seed, dtypes.uint32)
    bits = generator.seed(seed)
    return extended_dtypes.wrap_key_bits(bits, generator.dtype) if typed else bits


_seed = one_equation(_key_of, name="seed")


@draw_function
def split(key: Key, num: Shape = 2) -> Array:
    """New keys from a key, which is not to be used again.

    Args:
        key (Array): A random key.
        num: How many: an array of keys of shape (num,), or of the shape that `num` is.

    >>> import weft
    >>> first, second = weft.random.split(weft.random.key(0))
    >>> weft.random.split(first, (2, 3)).shape
    (2, 3)
    """
    stream = stream_of(key)
    return _like(key, stream.generator.split(stream.bits, num))


def _like(key: Any, bits: Any) -> Any:
    """Wraps bits as a typed key if `key` is one."""
    dtype = type_of(key).dtype
    return extended_dtypes.wrap_key_bits(bits, dtype) if isinstance(dtype, KeyDType) else bits


def fold_in(key: Any, data: Any) -> Array:
    """A new key from a key and an integer (32 bits): distinct integers give independent keys.

    Args:
        key (Array): A random key.
        data (int or Array): An integer, or an integer array without dimensions. A negative one of
            NumPy or in an array stands for its 32 bits.

    Raises OverflowError for what does not fit in 32 bits, and for a negative Python integer.

    >>> import weft
    >>> weft.random.key_data(weft.random.fold_in(weft.random.key(0), 1))
    Array([ 928981903, 3453687069], dtype=uint32)
    """
    if type(data) is int and 0 <= data < 1 << 32:
        data = np.uint32(data)
        if current_trace() is bottom_trace():
            data = as_array(data)
    return _fold_in(key, data)


@draw_function
def _fold_in(key: UnusedKey, data: Word) -> Array:
    stream = stream_of(key)
    return _like(key, stream.generator.fold_in(stream.bits, convert(data, dtypes.uint32)))


@api_boundary
def clone(key: Any) -> Array:
    """Copies a key, so that `debug_key_reuse` accepts that it draws the same numbers again.

    >>> import weft
    >>> key = weft.random.key(0)
    >>> with weft.config.debug_key_reuse():
    ...     bool(weft.random.normal(key) == weft.random.normal(weft.random.clone(key)))
    True
    """
    key, _ = check_keys(key)
    if config.settings().debug_key_reuse and isinstance(type_of(key).dtype, KeyDType):
        return clone_key(key)
    return key


@api_boundary
def key_data(keys: Any) -> Array:
    """The bits of keys: uint32, with the dimensions of a key's bits behind those of the keys.

    keys: an array of keys.

    >>> weft.random.key_data(weft.random.key(7))
    Array([0, 7], dtype=uint32)
    """
    keys, _ = check_keys(keys)
    of = type_of(keys)
    if not isinstance(of.dtype, KeyDType):
        return keys
    if _on_one_device(keys) and current_trace() is bottom_trace():
        return _view(keys, extended_dtypes.physical_type(of))
    return extended_dtypes.key_bits(keys)


@api_boundary
def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Array:
    """Keys of the given bits: the inverse of `key_data`; `impl` (None: the default generator)
    and `dtype` as in `key`.

    key_bits_array: the bits, uint32, whose last dimensions are those of one key.

    >>> weft.random.key_data(weft.random.wrap_key_data(np.array([0, 7], np.uint32)))
    Array([0, 7], dtype=uint32)
    """
    generator = _generator(impl, dtype)
    bits = key_bits_array
    if isinstance(bits, (np.ndarray, np.generic)):
        of = ArrayType(bits.shape, bits.dtype)
    else:
        of = type_of(bits)
    n = len(generator.key_shape)
    if of.dtype != np.uint32 or of.ndim < n or of.shape[of.ndim - n :] != generator.key_shape:
        wanted = ", ".join(map(str, generator.key_shape))
        message = f"takes the bits of {generator.name} keys, not {of}"
        raise DTypeError(message, got=str(of), wanted=f"u32[..., {wanted}]")
    key_type = of.update(shape=of.shape[: of.ndim - n], dtype=generator.dtype, weak_type=False)
    if isinstance(bits, np.ndarray):
        bits = as_array(bits)
    if _on_one_device(bits) and current_trace() is bottom_trace():
        return _view(bits, key_type)
    return extended_dtypes.wrap_key_bits(bits, generator.dtype)


def _on_one_device(value: Any) -> bool:
    """Whether a value is an array on one device."""
    if type(value) is not Array:
        return False
    return not isinstance(value._committed_place(), Sharding)


def _view(array: Array, type: ArrayType) -> Array:
    """The same buffer as an array of another type of equal storage."""
    array = to_layout(array, None)
    return Array(array._live(), type, signature_of(type, array._kept_place(), None))


@api_boundary
def key_impl(keys: Any) -> str:
    """The name of the generator of keys, of any shape.

    keys: an array of keys, with or without a type of their own.

    >>> weft.random.key_impl(weft.random.key(0))
    'threefry2x32'
    """
    keys, _ = check_keys(keys)
    dtype = type_of(keys).dtype
    generator: Generator = (
        dtype.implementation if isinstance(dtype, KeyDType) else default_generator()
    )
    return generator.name
