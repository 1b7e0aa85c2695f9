"""The primitives that weft is made of, by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from types import ModuleType

from weft.callbacks import primitives as callbacks
from weft.control_flow import (
    checkpoint,
    checkpoint_policies,
    cond,
    jit_primitive,
    linear_solve,
    reduction,
    scan,
    while_loop,
)
from weft.core.primitive import Primitive
from weft.custom_derivatives import custom_jvp, custom_vjp, pullback
from weft.dispatch import debug_nans
from weft.export import call_exported
from weft.ffi import call
from weft.ops.collectives import all_reduce, invariant, movement, permutation
from weft.ops.elementwise import (
    arithmetic,
    bits,
    convert,
    densities,
    divisors,
    elementary,
    logarithms,
    powers,
    regularized,
    rounding,
    selection,
    special,
    stable_sums,
)
from weft.ops.elementwise import complex as complex_numbers
from weft.ops.indexing import creation, dynamic_slicing, gather, scatter, slicing
from weft.ops.linalg import (
    cholesky,
    eig,
    eigh,
    householder,
    lu,
    qr,
    schur,
    svd,
    triangular_solve,
    tridiagonal,
)
from weft.ops.products import convolution, dot, fft
from weft.ops.reductions import argreduce, cumulative, reduce, sorting, window
from weft.ops.structural import (
    constants,
    extended_dtypes,
    joining,
    layout_constraint,
    shape,
    sharding_constraint,
    tangents,
)
from weft.random import philox, threefry
from weft.random.gamma import random_gamma_p
from weft.scipy.special import bessel, entropies, error_functions, gammas, hypergeometric, integrals
from weft.spmd import eager, shard_map_primitive

__all__ = ["BuiltinPrimitives", "primitives"]

_MODULES: tuple[ModuleType, ...] = (
    argreduce, arithmetic, bessel, bits, eager, call_exported, callbacks, debug_nans,
    checkpoint_policies, cholesky, invariant, movement,
    permutation, all_reduce, complex_numbers, cond, constants, convert, convolution,
    creation, cumulative, custom_jvp, pullback, custom_vjp, densities, divisors, dot,
    dynamic_slicing,
    eig, eigh, elementary, entropies, error_functions, extended_dtypes, fft, call, gammas, gather,
    householder, hypergeometric, integrals, jit_primitive, joining, layout_constraint,
    linear_solve, logarithms, lu, philox, powers, qr, reduce, reduction, regularized, checkpoint,
    rounding, scan,
    scatter, schur,
    selection, shape, shard_map_primitive, sharding_constraint, slicing, sorting, special,
    stable_sums, svd,
    tangents, threefry, triangular_solve, tridiagonal, while_loop, window,
)  # fmt: skip


class BuiltinPrimitives(Mapping[str, Primitive]):
    """The primitives of weft: a read-only mapping from names to them, in the order of names.

    `primitives["sin"]` and `primitives.sin_p` are the same; the names are those that programs show.
    A name that there is not raises KeyError (as an attribute AttributeError), which names those
    that are spelled alike.

    >>> from weft.extend.core import primitives
    >>> primitives["sin"] is primitives.sin_p
    True
    >>> weft.make_jaxpr(lambda x: lax.sin(x))(1.0).eqns[0].primitive is primitives.sin_p
    True
    """

    __slots__ = ("_by_name",)

    def __init__(self) -> None:
        found = {
            value.name: value
            for module in _MODULES
            for value in vars(module).values()
            if isinstance(value, Primitive)
        }
        found[random_gamma_p.name] = random_gamma_p  # Its module has the name of a function.
        self._by_name = dict(sorted(found.items()))

    def __getitem__(self, name: str) -> Primitive:
        try:
            return self._by_name[name]
        except KeyError:
            raise KeyError(self._unknown(name)) from None

    def __getattr__(self, attribute: str) -> Primitive:
        if attribute.startswith("_"):
            raise AttributeError(attribute)  # of an instance that is being made
        name = attribute.removesuffix("_p")
        if name == attribute or name not in self._by_name:
            raise AttributeError(self._unknown(name))
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(f"{name}_p" for name in self._by_name)})

    def __repr__(self) -> str:
        return f"<the {len(self)} primitives of weft>"

    def _unknown(self, name: str) -> str:
        close = difflib.get_close_matches(name, self._by_name, 3)
        alike = f"; there are {', '.join(close)}" if close else ""
        return f"weft has no primitive named {name!r}{alike}"


primitives = BuiltinPrimitives()
