"""The class of NumPy's elementwise functions: callables that also reduce, accumulate and update.

The methods of `ufunc` need modules that are written with such functions, so their code is in
`ufunc_methods`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.errors import Fix, WeftNotImplementedError, WeftTypeError
from weft.errors.argument_errors import refusal
from weft.runtime.jaxlib.lazy import LazyModule

# Imported when a method is called: it needs loops, and modules that import this one.
implementations = LazyModule("weft.numpy.ufunc_methods")


class _Missing:
    """The mark of an operand that was not given."""


MISSING: Any = _Missing()
_UNSUPPORTED = {
    "out": "arrays do not change in place; use the result",
    "where": "choose among the results: weft.numpy.where(condition, result, other)",
    "dtype": "convert the operands first: x.astype(dtype)",
    **dict.fromkeys(("casting", "order", "signature", "subok"), "leave it out"),
}


class ufunc:
    """An elementwise function of `nin` operands with `nout` results, as NumPy's class of this name.

    Call it on arrays and numbers: operands are broadcast against one another. Functions of two
    operands have the methods `reduce`, `accumulate`, `reduceat` and `outer`; `at` updates elements.
    identity: the value that leaves others as they are, or None. name: how it is shown. reorderable:
    whether operands may be combined in any order, so that a reduction takes several axes.

    >>> jnp.add.nin, jnp.add.identity, isinstance(jnp.add, jnp.ufunc)
    (2, 0, True)
    >>> jnp.add.reduce(jnp.arange(4))
    Array(6, dtype=int32)
    """

    __name__: str
    nin: int
    nout: int
    identity: Any
    # Whether operands may be combined in any order, so that a reduction takes several axes.
    reorderable: bool
    if TYPE_CHECKING:
        __call__: Callable[..., Any]

    def __init__(self, name: str, nin: int, nout: int, identity: Any, reorderable: bool) -> None:
        self.__name__ = self.__qualname__ = name
        self.nin, self.nout = nin, nout
        self.identity = identity
        self.reorderable = reorderable

    @property
    def nargs(self) -> int:
        """The number of operands and results together.

        >>> jnp.add.nargs
        3
        """
        return self.nin + self.nout

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r}>"

    def __reduce__(self) -> Any:
        return self.__name__

    def reduce(
        self,
        a: Any,
        axis: int | tuple[int, ...] | None = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        """Combines the elements along `axis` (None: all of them), from the first to the last.

        dtype: that of the operands; initial: a value to combine with the elements first; where: a
        mask of the elements that take part. Several axes are allowed only if the order does not
        matter. Raises WeftTypeError for a function not of two operands, WeftValueError for no
        elements without an identity.

        >>> jnp.subtract.reduce(jnp.array([10, 3, 2]))
        Array(5, dtype=int32)
        """
        return implementations.reduce(self, a, axis, dtype, out, keepdims, initial, where)

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        """The combinations of the elements up to each one along `axis`.

        >>> jnp.multiply.accumulate(jnp.array([2, 3, 4]))
        Array([ 2,  6, 24], dtype=int32)
        """
        return implementations.accumulate(self, a, axis, dtype, out)

    def reduceat(
        self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None
    ) -> Any:
        """Reduces parts of an axis: part i goes from indices[i] to before indices[i + 1].

        The last part goes to the end; where the next index is not larger, the part is one element.
        Raises WeftIndexError for an index that is known and out of bounds.

        >>> jnp.add.reduceat(jnp.arange(8), jnp.array([0, 4, 1, 5]))
        Array([ 6,  4, 10, 18], dtype=int32)
        """
        return implementations.reduceat(self, a, indices, axis, dtype, out)

    def outer(self, A: Any, B: Any, /) -> Any:
        """The function of every element of A with every element of B, shape A.shape + B.shape.

        >>> jnp.add.outer(jnp.array([1, 2]), jnp.array([10, 20, 30]))
        Array([[11, 21, 31],
               [12, 22, 32]], dtype=int32)
        """
        return implementations.outer(self, A, B)

    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """A new array with the function applied to the elements of `a` at `indices` (and to `b`).

        An element that is listed several times is updated several times; indices out of bounds are
        left out. Arrays do not change in place, so pass `inplace=False`.

        >>> jnp.add.at(jnp.zeros(3), jnp.array([0, 0, 2]), 1.0, inplace=False)
        Array([2., 0., 1.], dtype=float32)
        """
        return implementations.at(self, a, indices, b, inplace)

    def refuse(self, given: int, keywords: dict[str, Any]) -> None:
        """Raises for a call with a wrong number of operands, or with more than `out=None`."""
        name = self.__name__
        for keyword, value in keywords.items():
            if keyword in ("out", "where") and value is None:
                continue
            advice = _UNSUPPORTED.get(keyword, "leave it out")
            # NumPy's keywords are not implemented; others are the caller's mistake.
            error = WeftNotImplementedError if keyword in _UNSUPPORTED else WeftTypeError
            message, got = f"{name} takes no {keyword}=: {advice}", f"{keyword}={value!r:.60}"
            fix = Fix("keyword", advice, {"keyword": keyword})
            raise refusal(error, message, name, got, f"{self.nin} operands and no keywords", fix)
        if given == self.nin:
            return
        count = {1: "one operand", 2: "two operands"}.get(self.nin, f"{self.nin} operands")
        also = "; NumPy's out= is not supported: use the result" if given > self.nin else ""
        message = f"{name} takes {count}, and got {given}{also}"
        raise refusal(WeftTypeError, message, name, f"{given} operands", count)


class FunctionUfunc(ufunc):
    """A ufunc written as a Python function of arrays."""

    def __init__(
        self, function: Callable[..., Any], nin: int, nout: int, identity: Any, reorderable: bool
    ) -> None:
        super().__init__(function.__name__, nin, nout, identity, reorderable)
        functools.update_wrapper(self, function, updated=())
        self.function = function

    def __call__(self, *operands: Any, **keywords: Any) -> Any:
        if keywords or len(operands) != self.nin:
            self.refuse(len(operands), keywords)
        return self.function(*operands)


def ufunc_of(
    nin: int, nout: int = 1, identity: Any = None, reorderable: bool = False
) -> Callable[[Callable[..., Any]], FunctionUfunc]:
    """Makes a ufunc of a function of arrays that broadcasts its operands."""
    return lambda function: FunctionUfunc(function, nin, nout, identity, reorderable)


def signature_of(*names: str) -> inspect.Signature:
    """The signature of a ufunc of these operands."""
    kinds = inspect.Parameter
    parameters = [
        *[kinds(name, kinds.POSITIONAL_OR_KEYWORD, annotation=Any) for name in names],
        *[kinds(name, kinds.KEYWORD_ONLY, default=None) for name in ("out", "where")],
    ]
    return inspect.Signature(parameters, return_annotation=Any)
