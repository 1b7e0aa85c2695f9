"""`ShapeDtypeStruct`: the type, sharding and layout of an array, without the array.

It stands for an argument where a function is traced, lowered or exported, and for a result where
only its type is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from weft import dtypes
from weft.core.axes import over_mesh_in_force
from weft.core.types import ArrayType, Typed, type_of, user_value
from weft.errors import Fix, WeftTypeError, WeftValueError, api_boundary
from weft.errors.argument_errors import invalid_type
from weft.sharding import Format, Layout, PartitionSpec, Sharding, SingleDeviceSharding
from weft.sharding.devices import is_device
from weft.sharding.layout import unless_row_major

_OPERATION = "ShapeDtypeStruct"


class ShapeDtypeStruct(Typed):
    """Stands for an array whose type alone is known, when a function is traced or lowered.

    shape: a tuple of lengths; dtype: anything that names a dtype. sharding: a sharding, a device, a
    PartitionSpec over the mesh in force, or a Format, which has a layout as well; None leaves it
    open. weak_type: whether the dtype yields to others in promotion.

    Raises WeftTypeError for anything that is not a shape, dtype or sharding, WeftValueError for a
    spec without a mesh and for `Layout.AUTO`, and ShapeError if the sharding cannot split an array
    of the shape or the layout has another rank.

    >>> from weft.core.shape_struct import ShapeDtypeStruct
    >>> ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=f32)
    >>> ShapeDtypeStruct((2, 3), "float32").update(shape=(4,), weak_type=True)
    ShapeDtypeStruct(shape=(4,), dtype=f32, weak_type=True)
    """

    __slots__ = ("_symbolic", "layout", "sharding", "type")

    # The shape where lengths are symbolic, for `weft.export`: there is no type then.
    _symbolic: tuple[tuple[Any, ...], Any] | None

    layout: Layout | None
    sharding: Sharding | None

    @api_boundary
    def __init__(
        self, shape: Iterable[int], dtype: Any, *, sharding: Any = None, weak_type: bool = False
    ) -> None:
        self._symbolic = None
        lengths = tuple(shape) if isinstance(shape, (tuple, list)) else ()
        if any(hasattr(n, "scope") for n in lengths):
            self._symbolic = lengths, ArrayType((), dtype, weak_type)
            self.sharding = self.layout = None
            return
        self.type = _checked_type(shape, dtype, weak_type)
        self.sharding, self.layout = _place(sharding)
        if self.sharding is not None:
            self.sharding.check_shape(_OPERATION, "the array", self.shape)
        if self.layout is not None:
            self.layout.check_rank(_OPERATION, "the array", self.shape)

    @classmethod
    def like(cls, value: Any) -> ShapeDtypeStruct:
        """The struct of an array, or of another struct: its type, sharding and layout.

        The sharding of an array that is not committed is left open.

        >>> from weft.core.shape_struct import ShapeDtypeStruct
        >>> import weft.numpy as jnp
        >>> ShapeDtypeStruct.like(jnp.zeros((2, 3))).shape
        (2, 3)
        """
        place = getattr(value, "format", None) if getattr(value, "committed", True) else None
        weak = bool(getattr(value, "weak_type", False))
        return cls(value.shape, value.dtype, sharding=place, weak_type=weak)

    def __getattr__(self, name: str) -> Any:
        if name == "type" and self._symbolic is not None:
            shape, _ = self._symbolic
            message = f"an array of the shape {shape} has no type: its lengths are symbolic"
            fix = Fix("export", "pass the struct to weft.export.export(f)(...), or name numbers")
            raise WeftTypeError(message, operation=_OPERATION, got=str(shape), fix=fix)
        raise AttributeError(f"ShapeDtypeStruct has no attribute {name!r}")

    @property
    def shape(self) -> tuple[Any, ...]:
        """The length of each dimension."""
        return self.type.shape if self._symbolic is None else self._symbolic[0]

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return (self.type if self._symbolic is None else self._symbolic[1]).dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return prod(self.shape)

    @property
    def weak_type(self) -> bool:
        """Whether the dtype gives way to others in promotion."""
        return bool((self.type if self._symbolic is None else self._symbolic[1]).weak_type)

    @property
    def format(self) -> Format:
        """The layout and the sharding; None for each that is left open."""
        return Format(self.layout, self.sharding)

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """The same struct with other values for some arguments of the constructor."""
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "sharding": self.sharding if self.layout is None else self.format,
            "weak_type": self.weak_type,
        }
        unknown = sorted(changes.keys() - fields)
        if unknown:
            message = f"ShapeDtypeStruct.update: there is no field {unknown[0]!r}"
            got = ", ".join(unknown)
            raise WeftTypeError(
                message, operation="ShapeDtypeStruct.update", got=got, wanted=", ".join(fields)
            )
        return ShapeDtypeStruct(**(fields | changes))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return int(self.shape[0])

    def _key(self) -> tuple[Any, ...]:
        return self._symbolic or self.type, self.sharding, unless_row_major(self.layout)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        text = f"shape={self.shape}, dtype={dtypes.short_name(self.dtype)}"
        if self.weak_type:
            text += ", weak_type=True"
        if self.sharding is not None:
            text += f", sharding={self.sharding}"
        if unless_row_major(self.layout) is not None:
            text += f", layout={self.layout}"
        return f"ShapeDtypeStruct({text})"


def described_type(value: Any) -> ArrayType:
    """The type of an array, of a number, or of a value with a `shape` and `dtype`. A mere
    description has the width that the dtype rule allows."""
    try:
        out = type_of(user_value(value))
    except WeftTypeError:
        if (
            isinstance(value, ShapeDtypeStruct)
            or not hasattr(value, "shape")
            or not hasattr(value, "dtype")
        ):
            raise
        weak = bool(getattr(value, "weak_type", False))
        out = _checked_type(value.shape, value.dtype, weak)
    else:
        if not isinstance(value, ShapeDtypeStruct):
            return out
    dtype = dtypes.allowed(out.dtype)
    return out if dtype is out.dtype else out.update(dtype=dtype)


def _checked_type(shape: Any, dtype: Any, weak_type: bool) -> ArrayType:
    try:
        lengths = tuple(shape)
        bad = [n for n in lengths if isinstance(n, bool) or not hasattr(n, "__index__") or n < 0]
    except TypeError:
        bad = [shape]
    if bad:
        message = "ShapeDtypeStruct takes a shape first"
        wanted = "a tuple of lengths, none of them negative"
        example = (shape,) if type(shape) is int and shape >= 0 else (3,)
        fix = Fix("shape", f"pass the shape as a tuple, such as {example!r}", {"shape": example})
        raise invalid_type(message, _OPERATION, "shape", shape, wanted, fix=fix)
    return ArrayType(lengths, dtype, weak_type)


def _place(given: Any) -> tuple[Sharding | None, Layout | None]:
    """The sharding and the layout of a user's `sharding` argument."""
    layout: Any = None
    if isinstance(given, Format):
        given, layout = given.sharding, given.layout
    if layout is Layout.AUTO:
        message = "ShapeDtypeStruct: Layout.AUTO is no layout of an array"
        got = f"sharding={Format(layout, given)}"
        wanted = "a Format with a Layout"
        fix = Fix("in_shardings", "pass Format(Layout.AUTO) in in_shardings of jit")
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
    if is_device(given):
        given = SingleDeviceSharding(given)
    if isinstance(given, PartitionSpec):
        given = over_mesh_in_force(given, _OPERATION)
    if given is not None and not isinstance(given, Sharding):
        message = "ShapeDtypeStruct takes a sharding, a spec, a device or a Format as sharding"
        got = f"{given!r:.100} of class {type(given).__name__}"
        wanted = "such as a NamedSharding, or None"
        fix = Fix("sharding", "pass x.sharding or x.format of an array")
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
    return (None if getattr(given, "without_axes", False) else given), layout
