"""Marks that say how a `vjp` returns each cotangent, and the values in its place: see
`VJPFunction`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes, tree
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, TreeError, WeftValueError, api_boundary
from weft.refs.reference import Ref
from weft.runtime.jaxlib.lazy import pending_nodes


class _Mark:
    """A request or result for one cotangent; all of one class are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class GradValue(_Mark):
    """Asks for a cotangent as a value."""

    __slots__ = ()


class GradRef(_Mark):
    """The result for a cotangent that was added to a reference."""

    __slots__ = ()


class DontWant(_Mark):
    """Says that a cotangent is not needed."""

    __slots__ = ()


class DidntWant(_Mark):
    """The result for a cotangent that was not requested."""

    __slots__ = ()


class VJPFunction(tree.Partial):
    """The function from the cotangent of a result to those of the arguments, as `vjp` returns it.
    It is a tree of its residuals, so transformed functions can return it, and the forward rule of a
    `custom_vjp` can pass it to the backward rule."""

    def with_refs(self, *refs: Any) -> tree.Partial:
        """The same function, which adds cotangents to references.

        `refs` has the structure of the arguments, with a reference, `GradValue()` or `DontWant()`
        for each leaf. In the result stands `GradRef()` for what was added to a reference, and
        `DidntWant()` for what was not asked for. An argument that is a reference has a reference or
        `DontWant()`: it holds the cotangent of what the argument holds in the end, and afterwards
        that of what it held before. Raises TreeError for another structure, and WeftValueError for
        an argument that is a reference and has no such mark.

        >>> total = weft.new_ref(0.0)
        >>> _, f_vjp = weft.vjp(lambda x, y: x * y, 2.0, 3.0)
        >>> f_vjp.with_refs(total, weft.ad.GradValue())(1.0)
        (GradRef(), Array(2., dtype=float32, weak_type=True))
        >>> total
        Ref(3., dtype=float32, weak_type=True)
        """
        leaves, structure = tree.flatten(refs)
        return tree.Partial(_Accumulating(tuple(leaves), structure), self)


class _Accumulating:
    """Applies a pullback and adds its results to references."""

    __slots__ = ("leaves", "structure")

    def __init__(self, leaves: tuple[Any, ...], structure: Any) -> None:
        self.leaves, self.structure = leaves, structure

    @api_boundary("with_refs")
    def __call__(self, pullback: Any, cotangent: Any) -> Any:
        own = pullback.func
        places: tuple[int, ...] = ()
        if isinstance(own, PullbackOfReferences):
            self.check(own.structure)
            places = own.places
            cts = own.cotangents([self.leaves[i] for i in places])
            found, structure = tree.flatten(pullback.args[0]((cotangent, cts)))
        else:
            found, structure = tree.flatten(pullback(cotangent))
            self.check(structure)
        results: list[Any] = []
        for i, (mark, value) in enumerate(zip(self.leaves, found, strict=True)):
            if i in places and type(mark) is Ref:
                if type_of(value).dtype != dtypes.float0:
                    mark[...] = value
                results.append(GradRef())
            elif type(mark) is Ref:
                if type_of(value).dtype != dtypes.float0:
                    mark.addupdate(value)
                results.append(GradRef())
            else:
                results.append(DidntWant() if type(mark) is DontWant else value)
        return structure.unflatten(results)

    def check(self, structure: Any) -> None:
        """Raises TreeError unless there is a mark for each argument."""
        if structure != self.structure:
            message = "with_refs takes a mark for each argument of the function"
            fix = Fix("same_structure", "pass a reference, GradValue() or DontWant() for each")
            raise TreeError(message, got=str(self.structure), wanted=str(structure), fix=fix)


class PullbackOfReferences:
    """The pullback of a function with references among its arguments, as a function of their
    arrays. The cotangent of a reference is a reference, which the pullback writes.

    `structure` is that of the arguments, `places` says which are references, and `types` are those
    of their cotangents.
    """

    __slots__ = ("places", "structure", "types")

    def __init__(self, structure: Any, places: Sequence[int], types: Sequence[ArrayType]) -> None:
        self.structure, self.places, self.types = structure, tuple(places), tuple(types)

    @api_boundary("vjp")
    def __call__(self, pullback: Any, cotangent: Any) -> Any:
        raise without_reference(f"no mark for {len(self.places)} of them")

    def cotangents(self, marks: Sequence[Any]) -> list[Any]:
        """The cotangents of the references' final arrays; zero where none is wanted."""
        for mark in marks:
            if type(mark) not in (Ref, DontWant):
                raise without_reference(f"{mark!r:.100} for one of them")
        return [
            array_of(mark) if type(mark) is Ref else np.zeros(type_.shape, type_.dtype)
            for mark, type_ in zip(marks, self.types, strict=True)
        ]


def array_of(ref: Ref) -> Any:
    """The contents of a reference as a cotangent; zeros of float0 for integers and booleans."""
    return np.zeros(ref.shape, dtypes.float0) if ref.dtype.kind in "iub" else ref[...]


def without_reference(got: str) -> WeftValueError:
    """The error for a pullback of references that is given no reference to write."""
    message = "the cotangent of a reference is a reference, and the pullback is given none"
    fix = Fix("with_refs", "call f_vjp.with_refs(marks)(cotangent), with a reference or "
              "weft.ad.DontWant() for each reference among the arguments")  # fmt: skip
    wanted = "a mark for each argument: a reference, GradValue() or DontWant()"
    return WeftValueError(message, got=got, wanted=wanted, fix=fix)


# What comes out of a transformed function is a tree without leaves.
for _mark in (GradRef, DidntWant):
    pending_nodes.append((_mark, lambda mark: ((), None), lambda _, __, made=_mark: made(), None))
pending_nodes.append(
    (
        VJPFunction,
        lambda f: ((f.args, f.keywords), f.func),
        lambda func, children: VJPFunction(func, *children[0], **children[1]),
        None,
    )
)  # not registered at once, which would load jaxlib
