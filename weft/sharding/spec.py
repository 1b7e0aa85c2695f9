"""`PartitionSpec`, or `P`: which mesh axes split each dimension of an array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from weft.base.util import Immutable
from weft.errors import Fix, WeftTypeError, api_boundary
from weft.sharding.names import find_duplicates, repeated_axis


class Unconstrained:
    """The entry of a spec for a dimension whose split the compiler decides."""

    __slots__ = ()

    _only: ClassVar[Unconstrained | None] = None

    def __new__(cls) -> Unconstrained:
        if cls._only is None:
            cls._only = object.__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> tuple[Any, ...]:
        return Unconstrained, ()


Entry = None | str | tuple[str, ...] | Unconstrained


class PartitionSpec(Immutable):
    """For each dimension of an array, the mesh axes that split it; `P` for short.

    An entry is None (the dimension is not split), the name of a mesh axis, or a tuple of names: the
    dimension is split over several axes, the first one outermost. Dimensions without an entry are
    not split. An axis that no entry mentions holds copies. `P.UNCONSTRAINED` as an entry leaves a
    dimension to the compiler, in `with_sharding_constraint`.

    `sum` names axes over which a value is still to be summed, in the out_specs of `shard_map`.

    A spec is immutable and behaves like the tuple of its entries: it has a length, is indexed and
    iterated over, and equals that tuple. `P('i')` and `P('i', None)` are different specs that mean
    the same for a matrix.

    entries: one entry for each dimension, from the first on.

    Raises WeftTypeError for an entry that is none of these and AxisError for an axis that is
    mentioned twice.

    >>> from weft.sharding import PartitionSpec as P
    >>> P("i", None, ("j", "k"))
    P('i', None, ('j', 'k'))
    >>> P("i", ("j",), ()).axes()
    ('i', 'j')
    >>> P(None, sum="i").sum
    ('i',)
    """

    __slots__ = ("__weakref__", "_axes", "_entries", "_hash", "sum")

    UNCONSTRAINED: Final = Unconstrained()

    sum: tuple[str, ...]
    _axes: tuple[str, ...]
    _entries: tuple[Entry, ...]
    _hash: int

    @api_boundary
    def __init__(self, *entries: Any, sum: Any = ()) -> None:  # noqa: A002  (its public name)
        kept = tuple(
            [
                entry
                if entry is None or (type(entry) is str and entry)
                else _entry(entry, position, entries)
                for position, entry in enumerate(entries)
            ]
        )
        axes: list[str] = []
        for entry in kept:
            if type(entry) is str:
                axes.append(entry)
            elif type(entry) is tuple:
                axes += entry
        summed = _names(sum) if sum else ()
        if summed is None:
            message = "PartitionSpec: sum takes the names of mesh axes"
            wanted = "a name or a tuple of names"
            fix = Fix("remove", "leave sum out", {"argument": "sum"})
            raise WeftTypeError(message, got=f"sum={sum!r}", wanted=wanted, fix=fix)
        _set(self, "_entries", kept)
        _set(self, "_axes", tuple(axes))
        _set(self, "sum", summed)
        # As for the tuple, which a spec without sums equals.
        _set(self, "_hash", hash((kept, summed)) if summed else hash(kept))
        twice = find_duplicates((*axes, *summed)) if len(axes) + len(summed) > 1 else ()
        if twice:
            raise repeated_axis(twice, repr(self), _without_repetitions(kept, summed))

    def axes(self) -> tuple[str, ...]:
        """The mesh axes that split a dimension, in the order of the dimensions."""
        return self._axes

    def entry_axes(self, dimension: int) -> tuple[str, ...]:
        """The mesh axes that split a dimension, the outermost first; () if none does."""
        entry = self._entries[dimension] if dimension < len(self._entries) else None
        if isinstance(entry, str):
            return (entry,)
        return entry if isinstance(entry, tuple) else ()

    def is_open(self, dimension: int) -> bool:
        """Whether a dimension is left to the compiler (`P.UNCONSTRAINED`)."""
        return dimension < len(self._entries) and isinstance(
            self._entries[dimension], Unconstrained
        )

    def update(
        self,
        partitions: Any = None,
        *,
        sum: Any = None,  # noqa: A002  (its public name)
    ) -> PartitionSpec:
        """A spec with other entries (`partitions`, a sequence) or another `sum`.

        >>> from weft.sharding import PartitionSpec as P
        >>> P("i", sum="j").update(sum=())
        P('i')
        """
        entries = self._entries if partitions is None else tuple(partitions)
        return PartitionSpec(*entries, sum=self.sum if sum is None else sum)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: Any) -> Any:
        return self._entries[index]

    def __contains__(self, entry: Any) -> bool:
        return entry in self._entries

    def index(self, value: Any) -> int:
        """The first dimension that has this entry. Raises ValueError if none has."""
        return self._entries.index(value)

    def count(self, value: Any) -> int:
        """How many dimensions have this entry."""
        return self._entries.count(value)

    def __add__(self, other: Any) -> PartitionSpec:
        if isinstance(other, PartitionSpec):
            return PartitionSpec(*self, *other, sum=self.sum + other.sum)
        if isinstance(other, tuple):
            return PartitionSpec(*self, *other, sum=self.sum)
        return NotImplemented

    def __radd__(self, other: Any) -> PartitionSpec:
        if isinstance(other, tuple):
            return PartitionSpec(*other, *self, sum=self.sum)
        return NotImplemented

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, PartitionSpec):
            return self._entries == other._entries and self.sum == other.sum
        if isinstance(other, tuple):
            return not self.sum and self._entries == other
        return NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        parts = [repr(entry) for entry in self._entries]
        if self.sum:
            summed = self.sum if len(self.sum) > 1 else self.sum[0]
            parts.append(f"sum={summed!r}")
        return f"P({', '.join(parts)})"

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a PartitionSpec cannot be changed; P.update makes another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a PartitionSpec cannot be changed; P.update makes another one")

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self._entries, self.sum)


P = PartitionSpec
_set = object.__setattr__


def _unpickle(entries: tuple[Entry, ...], summed: tuple[str, ...]) -> PartitionSpec:
    return PartitionSpec(*entries, sum=summed)


def _names(value: Any) -> tuple[str, ...] | None:
    """Axis names as a tuple; None for other values."""
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, tuple | list):
        return None
    return tuple(value) if all(isinstance(name, str) and name for name in value) else None


def _entry(entry: Any, position: int, entries: tuple[Any, ...]) -> Entry:
    """An entry in its shortest form: an empty tuple is None, a tuple of one is the name."""
    if entry is None or isinstance(entry, Unconstrained):
        return entry
    names = _names(entry)
    if names is None:
        fixed = entries[:position] + (None,) + entries[position + 1 :]
        message = f"PartitionSpec: entry {position} is no name of a mesh axis"
        got = f"{entry!r} ({type(entry).__name__})"
        wanted = "None, a name (a str that is not empty), or a tuple of names"
        text = f"write the name of a mesh axis, or None, for dimension {position}"
        fix = Fix("entries", text, {"entries": fixed, "position": position})
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
    return names[0] if len(names) == 1 else names or None


def _without_repetitions(entries: tuple[Entry, ...], summed: tuple[str, ...]) -> PartitionSpec:
    """The spec with only the first mention of each axis."""
    seen: set[str] = set()

    def fresh(names: tuple[str, ...]) -> tuple[str, ...]:
        kept = tuple(name for i, name in enumerate(names)
                     if name not in seen and name not in names[:i])  # fmt: skip
        seen.update(kept)
        return kept

    kept: list[Any] = []
    for entry in entries:
        names = _names(entry)
        kept.append(entry if names is None else fresh(names))
    return PartitionSpec(*kept, sum=fresh(summed))
