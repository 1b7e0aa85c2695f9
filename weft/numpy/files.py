"""Arrays in NumPy's files, and from bytes, texts and iterables: `save`, `load`, `frombuffer` …"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array
from weft.errors import WeftTypeError, WeftValueError
from weft.errors.argument_errors import refusal, unsupported_argument
from weft.numpy.creation import asarray
from weft.typing import ArrayLike

__all__ = [
    "frombuffer", "fromfile", "fromiter", "fromstring", "load", "save", "savez", "savez_compressed",
]  # fmt: skip

File = str | os.PathLike[str] | IO[bytes]


def _on_host(operation: str, value: Any, argument: str) -> np.ndarray[Any, Any]:
    """Converts an argument to a NumPy array of a dtype that NumPy's files support."""
    try:
        array = np.asarray(asarray(value))
    except (TypeError, ValueError):
        message = f"{operation}: {argument} is an array"
        got = f"{value!r:.60} of class {type(value).__name__}"
        wanted = "an array or what can be made one"
        raise refusal(WeftTypeError, message, operation, got, wanted) from None
    if array.dtype.kind == "V" and config.settings().argument_rule == "jax":
        return array  # NumPy writes the bits alone
    if array.dtype.kind == "V":
        raise WeftValueError(
            f"{operation}: NumPy's files have no dtype {array.dtype.name}",
            operation=operation,
            got=f"{argument} of dtype {array.dtype.name}",
            wanted="a dtype of NumPy; convert first, for example x.astype('float32'), or save the "
            "bits: x.view('uint16')",
        )
    return array


def save(file: File, arr: ArrayLike, allow_pickle: bool = True) -> None:
    """Writes one array to a file in NumPy's format, for `load` and `numpy.load`.

    arr: an array, or what can be made one. file: a path (".npy" is added where it has no such
    ending) or a binary file. Raises WeftTypeError for what is no array, a traced one included,
    WeftValueError for a dtype that the format does not know. `allow_pickle` is accepted for NumPy's
    sake: arrays are never pickled.

    >>> import io
    >>> file = io.BytesIO()
    >>> jnp.save(file, jnp.arange(3))
    >>> _ = file.seek(0)
    >>> jnp.load(file)
    Array([0, 1, 2], dtype=int32)
    """
    np.save(file, _on_host("save", arr, "arr"), allow_pickle=False)


def savez(file: File, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Writes several arrays to one file: those without a name as arr_0, arr_1 …

    file: a path or a binary file; args: the arrays without a name; kwds: the arrays with a name;
    allow_pickle: accepted for NumPy's sake. The arguments and errors are those of `save`; the
    ending is ".npz".

    >>> import io
    >>> file = io.BytesIO()
    >>> jnp.savez(file, jnp.ones(2), weights=jnp.zeros(1))
    >>> _ = file.seek(0)
    >>> sorted(jnp.load(file))
    ['arr_0', 'weights']
    """
    places, named = _to_write("savez", args, kwds)
    np.savez(file, *places, allow_pickle=False, **named)


def savez_compressed(file: File, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Writes several arrays to one file as `savez` does, each of them compressed.

    file, args, allow_pickle, kwds: as in `savez`.

    >>> import io
    >>> file = io.BytesIO()
    >>> jnp.savez_compressed(file, jnp.zeros(1000))
    >>> len(file.getvalue()) < 1000
    True
    """
    places, named = _to_write("savez_compressed", args, kwds)
    np.savez_compressed(file, *places, allow_pickle=False, **named)


def _to_write(
    operation: str, args: Sequence[Any], kwds: dict[str, Any]
) -> tuple[list[np.ndarray[Any, Any]], dict[str, np.ndarray[Any, Any]]]:
    """The arrays of a file, on the host. Raises WeftValueError if two have one name."""
    places = [_on_host(operation, x, f"argument {i}") for i, x in enumerate(args)]
    named = {key: _on_host(operation, x, key) for key, x in kwds.items()}
    taken = [f"arr_{i}" for i in range(len(places)) if f"arr_{i}" in named]
    if taken:
        message = f"{operation}: two arrays are called {taken[0]!r}"
        got = f"{len(places)} arrays without a name and the keyword {taken[0]}"
        raise refusal(WeftValueError, message, operation, got, "names that differ")
    return places, named


def load(
    file: File,
    mmap_mode: str | None = None,
    allow_pickle: bool = False,
    fix_imports: bool = True,
    encoding: str = "ASCII",
    *,
    max_header_size: int = 10000,
) -> Any:
    """The array in a file of NumPy's format, or for several a dictionary of them.

    A dtype of 64 bits is narrowed as `asarray` narrows it. Pickled objects are not read, and files
    are not mapped into memory: `mmap_mode` and `allow_pickle` raise NotImplementedError. file: a
    path or a binary file. fix_imports, encoding: without effect, because they concern pickles.
    max_header_size: how many bytes of description a file may have. Raises WeftValueError for a file
    that is no such file.

    >>> import io
    >>> jnp.load(io.BytesIO(b"text"))
    Traceback (most recent call last):
    weft.errors.WeftValueError: load: the file is not in NumPy's format...
    """
    for name, value in (("mmap_mode", mmap_mode), ("allow_pickle", allow_pickle)):
        if value:
            why = (
                "an array of weft is a copy in the memory of a device, and pickled objects are no "
                "arrays"
            )
            fix = f"read it with NumPy: numpy.load(file, {name}={value!r:.40})"
            raise unsupported_argument(
                "load", name, value, why, fix, None if name == "mmap_mode" else False
            )
    try:
        content = np.load(file, allow_pickle=False, max_header_size=max_header_size)
    except (ValueError, EOFError) as error:
        message = f"load: the file is not in NumPy's format ({str(error)[:80]})"
        wanted = "a file that save, savez or NumPy wrote"
        raise refusal(WeftValueError, message, "load", f"{file!r:.80}", wanted) from None
    if isinstance(content, np.ndarray):
        return _array_of(content)
    with content:
        return {name: _array_of(content[name]) for name in content.files}


def _array_of(value: np.ndarray[Any, Any]) -> Any:
    if value.dtype == np.dtype("V2") and config.settings().argument_rule == "jax":
        value = value.view(dtypes.bfloat16)  # the only such dtype of two bytes
    if value.dtype not in dtypes.ANY:
        message = f"load: an array of dtype {value.dtype} cannot be one of weft"
        wanted = "numbers or booleans; numpy.load reads the others"
        raise refusal(WeftValueError, message, "load", f"dtype {value.dtype}", wanted)
    return asarray(value)


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Array:
    """An array of one dimension from the bytes of a buffer; `dtype` says how they are read.

    buffer: `bytes`, or another object that gives access to its memory; count: how many numbers to
    read, -1 for all; offset: how many bytes to skip first.

    >>> jnp.frombuffer(b"abc", "uint8")
    Array([97, 98, 99], dtype=uint8)
    """
    return asarray(_read(np.frombuffer, buffer, dtype, count=count, offset=offset), dtype)


def fromfile(
    file: Any, dtype: Any = float, count: int = -1, sep: str = "", offset: int = 0
) -> Array:
    """An array of one dimension from a file that `ndarray.tofile` wrote; arguments as in NumPy.

    file: a path or an open file; count: how many numbers to read, -1 for all; sep: the text between
    numbers, "" for a binary file; offset: how many bytes of a binary file to skip first.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "numbers")
    ...     np.array([1, 2, 3], "int32").tofile(path)
    ...     jnp.fromfile(path, "int32", offset=4)
    Array([2, 3], dtype=int32)
    """
    return asarray(_read(np.fromfile, file, dtype, count=count, sep=sep, offset=offset), dtype)


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Array:
    """An array of one dimension from numbers written in a text, between separators.

    string: the text; count: how many numbers to read, -1 for all; sep: the separator.

    >>> jnp.fromstring("1 2 3", "int32", sep=" ")
    Array([1, 2, 3], dtype=int32)
    """
    return asarray(_read(np.fromstring, string, dtype, count=count, sep=sep), dtype)


def _read(function: Any, source: Any, dtype: Any, **options: Any) -> np.ndarray[Any, Any]:
    # Bytes are read in the width that NumPy gives to `float` and `int`, and narrowed afterwards.
    read = dtype if isinstance(dtype, type) else getattr(dtype, "dtype", dtype)
    return np.asarray(function(source, dtype=read, **options))


def fromiter(iter: Any, dtype: Any, count: int = -1) -> Array:
    """An array of one dimension from an iterable of numbers.

    iter: gives the numbers; count: how many to read, -1 for all.

    >>> jnp.fromiter(range(3), "int32")
    Array([0, 1, 2], dtype=int32)
    """
    return asarray(np.fromiter(iter, dtype=dtypes.requested(dtype), count=count), dtype)
