"""Rows that hold a function of `weft.numpy` to NumPy's: values, shapes and kinds of dtypes, called
eagerly, under `jit` and `vmap`, and derivatives where a row asks for them.

A row is `case("sum", a, axis=1)`: the name, the operands and the keywords of both functions. NumPy
arrays among the positional operands are traced; all else is static. The numbers are compared in
double precision, with `enable_x64` set.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
import weft.numpy as jnp
from weft import tree
from weft.testing import check_grads


@dataclasses.dataclass(frozen=True)
class Case:
    """One call. `reference`: what to compare with, by default NumPy's function of the name;
    `grad`: whether derivatives are checked; `jit`, `vmap`: whether it runs under these (a result
    whose shape depends on values does not); `dtype`: whether dtypes are compared."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    reference: Callable[..., Any] | None = None
    grad: bool = False
    jit: bool = True
    vmap: bool = True
    dtype: bool = True
    rtol: float = 1e-9

    def __str__(self) -> str:
        shown = [_shown(a) for a in self.args] + [
            f"{k}={_shown(v)}" for k, v in self.kwargs.items()
        ]
        return f"{self.name}({', '.join(shown)})"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_shown, value)) + "]"
    return str(getattr(value, "__name__", value))


def case(name: str, *args: Any, **kwargs: Any) -> Case:
    """A row; the keywords that `Case` has are its, all others go to the function."""
    own = {f.name for f in dataclasses.fields(Case)} - {"name", "args", "kwargs"}
    mine = {
        k.removeprefix("_"): v
        for k, v in kwargs.items()
        if k.removeprefix("_") in own and k[0] == "_"
    }
    rest = {k: v for k, v in kwargs.items() if k[0] != "_"}
    return Case(name, args, rest, **mine)


def lookup(namespace: Any, name: str) -> Any:
    """A function by its dotted name."""
    return functools.reduce(getattr, name.split("."), namespace)


def leaves(value: Any) -> list[Any]:
    """The arrays of a result, lists and tuples opened."""
    return tree.leaves(value)


def compare(case: Case, out: Any, expected: Any) -> None:
    """Raises AssertionError where a result differs from NumPy's."""
    found, wanted = leaves(out), leaves(expected)
    assert len(found) == len(wanted), f"{len(found)} results instead of {len(wanted)}"
    for x, y in zip(found, wanted, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == y.shape, f"shape {x.shape} instead of {y.shape}"
        if case.dtype:
            assert x.dtype.kind == y.dtype.kind, f"dtype {x.dtype} instead of {y.dtype}"
        np.testing.assert_allclose(
            x.astype(y.dtype) if y.dtype.kind != "b" else x, y, rtol=case.rtol, atol=1e-12
        )


def check(case: Case) -> None:
    """Raises AssertionError unless the row holds."""
    with weft.enable_x64():
        function = lookup(jnp, case.name)
        reference = case.reference or lookup(np, case.name)
        places = [i for i, a in enumerate(case.args) if isinstance(a, np.ndarray)]

        def call(*arrays: Any) -> Any:
            args = list(case.args)
            for i, a in zip(places, arrays, strict=True):
                args[i] = a
            return function(*args, **case.kwargs)

        arrays = [case.args[i] for i in places]
        expected = reference(*case.args, **case.kwargs)
        compare(case, call(*map(jnp.asarray, arrays)), expected)
        if case.jit and places:
            compare(case, weft.jit(call)(*arrays), expected)
        if case.vmap and case.jit and places:
            stacked = [np.stack([a, a[..., ::-1] if a.ndim else a]) for a in arrays]
            out = weft.vmap(call)(*stacked)
            for row in range(2):
                args = list(case.args)
                for i, a in zip(places, stacked, strict=True):
                    args[i] = a[row]
                compare(
                    case, [np.asarray(x)[row] for x in leaves(out)], reference(*args, **case.kwargs)
                )
        if case.grad:
            check_grads(lambda *a: tuple(leaves(call(*a))), arrays, order=1)
