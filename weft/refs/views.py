"""`ref.at[i]`: a part of a reference, which is read and written like one."""

from __future__ import annotations

from typing import Any

from weft.refs import index as indexing


class RefParts:
    """The attribute `ref.at`: its index gives a part of a reference."""

    __slots__ = ("_base",)

    def __init__(self, base: Any) -> None:
        self._base = base

    def __getitem__(self, index: Any) -> RefView:
        return RefView(self._base, index)


class RefView:
    """The part of a reference at an index; made by `ref.at[index]`.

    >>> x = weft.new_ref(jnp.arange(6).reshape(2, 3))
    >>> row = x.at[1]
    >>> row[0] = 7
    >>> row, row[:2]
    (RefView(i32[3]), Array([7, 4], dtype=int32))
    """

    __slots__ = ("base", "index", "shape")

    def __init__(self, base: Any, index: Any) -> None:
        self.base, self.index = base, index
        self.shape: tuple[int, ...] = indexing.indexed_shape(base.shape, index)

    @property
    def type(self) -> Any:
        """The type of a reference of this shape."""
        return self.base.type.update(shape=self.shape)

    aval = type

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.base.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        out: int = self.type.size
        return out

    @property
    def at(self) -> RefParts:
        """Parts of this part, by their index in it."""
        return RefParts(self)

    def __getitem__(self, index: Any) -> Any:
        return indexing.read(self.base[self.index], index)

    def __setitem__(self, index: Any, value: Any) -> None:
        value = self._fit_value(value, "ref[...] = value")
        if index is Ellipsis:
            self.base[self.index] = value
            return
        part = self.base[self.index]
        self.base[self.index] = indexing.update_at(part, index, value, "set")

    def _fit_value(self, value: Any, operation: str) -> Any:
        """A value that may be written into the reference, with its dtype."""
        return self.base._fit_value(value, operation)

    def get(self, idx: Any = ...) -> Any:
        """The part at an index: `view[idx]`."""
        return self[idx]

    def set(self, x: Any, idx: Any = ...) -> None:
        """Writes a part: `view[idx] = x`."""
        self[idx] = x

    def swap(self, x: Any, idx: Any = ...) -> Any:
        """Writes a part and returns what it held."""
        before = self[idx]
        self[idx] = x
        return before

    def addupdate(self, x: Any, idx: Any = ...) -> None:
        """Adds to a part; if an index names an element twice, both values are added."""
        if idx is Ellipsis:
            self.base.addupdate(x, self.index)
            return
        x = self._fit_value(x, "addupdate")
        part = self.base[self.index]
        self.base[self.index] = indexing.update_at(part, idx, x, "add")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a reference without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"RefView({self.type.inner})"
