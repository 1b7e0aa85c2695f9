"""What sparse arrays of every format have in common: a shape, buffers, and a dense form."""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

from weft import tree
from weft.api.jit import block_until_ready
from weft.api.vmap import mapped_classes
from weft.core.types import type_of
from weft.errors import WeftNotImplementedError, with_operation
from weft.runtime.jaxlib.lazy import LazyModule
from weft.typing import Array

# The operations, which make sparse arrays themselves.
methods: Any = LazyModule("weft.experimental.sparse.array_methods")


class SparseEfficiencyError(ValueError):
    """Raised if an operation would store far more than its operand does."""


class SparseEfficiencyWarning(UserWarning):
    """Given if an operation stores far more than its operand does."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """Given where cuSPARSE could not be used. weft gives none: it does not call cuSPARSE."""


class SparseInfo(NamedTuple):
    """The static properties of a sparse array."""

    shape: tuple[int, ...]
    indices_sorted: bool = False
    unique_indices: bool = False


def unsupported(what: str, got: Any, operation: str = "") -> WeftNotImplementedError:
    """The error for an operation that has no sparse form, with the name of one without a
    boundary."""
    message = with_operation(operation, what)
    wanted = "an operation whose result is sparse; weft.experimental.sparse.todense makes it dense"
    return WeftNotImplementedError(message, operation=operation, got=f"{got}", wanted=wanted)


class JAXSparse(abc.ABC):
    """A sparse array: buffers with the stored elements and their positions, and a shape.

    Operators take other sparse arrays, arrays and numbers, and keep the result sparse; what would
    fill it raises WeftNotImplementedError.

    Args:
        args: The buffers of the format, in its order.
    """

    __hash__ = None  # type: ignore[assignment]
    # NumPy's arrays leave operators to this class.
    __array_priority__ = 100
    __array_ufunc__ = None

    data: Array
    shape: tuple[int, ...]

    def __init__(self, args: Sequence[Any], *, shape: Sequence[int]) -> None:
        self.shape = tuple(map(int, shape))

    @property
    @abc.abstractmethod
    def nse(self) -> int:
        """The number of stored elements (of each batch)."""

    @abc.abstractmethod
    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """The buffers, and the other parts of the array."""

    @classmethod
    @abc.abstractmethod
    def tree_unflatten(cls, aux_data: Any, children: Sequence[Any]) -> Self:
        """The array with these buffers."""

    @abc.abstractmethod
    def todense(self) -> Array:
        """The dense array."""

    @abc.abstractmethod
    def transpose(self, axes: Sequence[int] | None = None) -> JAXSparse:
        """The array with its axes permuted."""

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return type_of(self.data).dtype

    @property
    def size(self) -> int:
        """The number of elements of the dense array."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def T(self) -> JAXSparse:
        """The array with its axes reversed."""
        return self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a sparse array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            counts = ((kind, getattr(self, kind, 0)) for kind in ("n_batch", "n_dense"))
            marks = "".join(f", {kind}={count}" for kind, count in counts if count)
            return f"{name}({self.dtype.name}{list(self.shape)}, nse={self.nse}{marks})"
        except (AttributeError, IndexError, TypeError):  # marks in the place of buffers
            return f"{name}(<buffers that are no arrays>)"

    def block_until_ready(self) -> Self:
        """Waits until the buffers are computed, and returns the array."""
        block_until_ready(tree.leaves(self))
        return self

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """The sum along axes: sparse, or an array without dimensions where all are summed."""
        return methods.reduced_sum(self, axis, dtype, keepdims)

    def __getitem__(self, index: Any) -> Any:
        return methods.getitem(self, index)

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a sparse array without dimensions")
        return (self[i] for i in range(self.shape[0]))

    def __matmul__(self, other: Any) -> Any:
        return methods.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return methods.matmul(other, self)

    def __mul__(self, other: Any) -> Any:
        return methods.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return methods.multiply(other, self)

    def __add__(self, other: Any) -> Any:
        return methods.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return methods.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return methods.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return methods.subtract(other, self)

    def __truediv__(self, other: Any) -> Any:
        return methods.divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return methods.divide(other, self)

    def __pow__(self, other: Any) -> Any:
        return methods.power(self, other)

    def __rpow__(self, other: Any) -> Any:
        raise unsupported("a power with a sparse exponent is dense", repr(other), "pow")

    def __neg__(self) -> Any:
        return methods.negative(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return methods.absolute(self)

    def __eq__(self, other: object) -> Any:
        raise _dense_comparison("eq", self)

    def __ne__(self, other: object) -> Any:
        raise _dense_comparison("ne", self)

    def __lt__(self, other: object) -> Any:
        raise _dense_comparison("lt", self)

    def __le__(self, other: object) -> Any:
        raise _dense_comparison("le", self)

    def __gt__(self, other: object) -> Any:
        raise _dense_comparison("gt", self)

    def __ge__(self, other: object) -> Any:
        raise _dense_comparison("ge", self)


def _dense_comparison(name: str, x: JAXSparse) -> WeftNotImplementedError:
    return unsupported("the comparison of a sparse array is dense", repr(x), name)


def map_over_batches(cls: type) -> None:
    """Lets `vmap` map a class of sparse arrays over its batch dimensions."""
    mapped_classes[cls] = (element_of, whole_of)


def element_of(x: Any, axis: int) -> Any:
    """A sparse array whose buffers lost a batch axis."""
    children, info = x.tree_flatten()
    shape = (*info.shape[:axis], *info.shape[axis + 1 :])
    return type(x).tree_unflatten(info._replace(shape=shape), children)


def whole_of(x: Any, size: int, axis: int) -> Any:
    """A sparse array whose buffers gained a batch axis."""
    children, info = x.tree_flatten()
    if not 0 <= axis <= x.n_batch:
        what = "the mapped axis of a sparse result is a batch dimension"
        raise unsupported(what, axis, "vmap")
    shape = (*info.shape[:axis], size, *info.shape[axis:])
    return type(x).tree_unflatten(info._replace(shape=shape), children)
