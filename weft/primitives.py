"""The primitives that weft is made of, by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from types import ModuleType

from weft.control import (
    blocks,
    call_exported,
    callbacks,
    checking,
    checkpoint_policies,
    cond,
    custom_jvp,
    custom_pullback,
    custom_vjp,
    foreign_calls,
    jit,
    key_reuse,
    linear_solve,
    reduction,
    remat,
    scan,
    shard_map,
    while_loop,
)
from weft.core.primitive import Primitive
from weft.ops import (
    argreduce,
    arithmetic,
    bits,
    cholesky,
    collective_invariant,
    collective_movement,
    collective_permutation,
    collectives,
    constants,
    convert,
    convolution,
    creation,
    cumulative,
    densities,
    divisors,
    dot,
    dynamic_slicing,
    eig,
    eigh,
    elementary,
    extended,
    fft,
    gather,
    householder,
    joining,
    layout_constraint,
    logarithms,
    lu,
    powers,
    qr,
    reduce,
    regularized,
    rounding,
    scatter,
    schur,
    selection,
    shape,
    sharding_constraint,
    slicing,
    sorting,
    special,
    stable_sums,
    svd,
    tangents,
    triangular_solve,
    tridiagonal,
    window,
)
from weft.ops import complex as complex_numbers
from weft.random import philox, threefry
from weft.random.gamma import random_gamma_p
from weft.scipy.special import bessel, entropies, errors, gammas, hypergeometric, integrals

__all__ = ["BuiltinPrimitives", "primitives"]

_MODULES: tuple[ModuleType, ...] = (
    argreduce, arithmetic, bessel, bits, blocks, call_exported, callbacks, checking,
    checkpoint_policies, cholesky, collective_invariant, collective_movement,
    collective_permutation, collectives, complex_numbers, cond, constants, convert, convolution,
    creation, cumulative, custom_jvp, custom_pullback, custom_vjp, densities, divisors, dot,
    dynamic_slicing,
    eig, eigh, elementary, entropies, errors, extended, fft, foreign_calls, gammas, gather,
    householder, hypergeometric, integrals, jit, joining, key_reuse, layout_constraint,
    linear_solve, logarithms, lu, philox, powers, qr, reduce, reduction, regularized, remat,
    rounding, scan,
    scatter, schur,
    selection, shape, shard_map, sharding_constraint, slicing, sorting, special, stable_sums, svd,
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
