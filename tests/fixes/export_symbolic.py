"""Fixes of exports with symbolic dimensions."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import export
from weft.errors import InconclusiveDimensionOperation, ShapeError, WeftTypeError, WeftValueError
from weft.export import SymbolicScope, symbolic_shape

THREE = np.array([1.0, 2.0, 3.0], np.float32)


def struct(shape):
    return weft.ShapeDtypeStruct(shape, "float32")


def exported(function, *specs, constraints=(), calls=(THREE,)):
    scope = SymbolicScope(constraints)
    structs = [struct(symbolic_shape(spec, scope=scope)) for spec in specs]
    return export.export(weft.jit(function))(*structs).call(*calls)


def doubled(x):
    return 2 * x


def at_least(number, **options):
    (n,) = symbolic_shape("n", **options)
    return n >= number


def first(shape):
    return str(shape[0])


def sized(x):
    return 2 * x if x.shape[0] > 3 else x


FIXES = [
    Fixed(
        "make all shapes with one scope",
        wrong=lambda: symbolic_shape("n")[0] + symbolic_shape("m")[0],
        fixed=lambda fix: sum(symbolic_shape("n", scope=s)[0] * 0 for s in [SymbolicScope()] * 2),
        value=0,
        error=WeftValueError,
    ),
    Fixed(
        "add a constraint that decides it: constraints=['n >= 8']",
        wrong=lambda: at_least(8),
        fixed=lambda fix: at_least(8, constraints=["n >= 8"]),
        value=lambda found: found is True,
        error=InconclusiveDimensionOperation,
    ),
    Fixed(
        "write products as 2*n",
        wrong=lambda: first(symbolic_shape("2n")),
        fixed=lambda fix: first(symbolic_shape("2*n")),
        value=lambda found: found == "2*n",
        error=WeftValueError,
    ),
    Fixed(
        "make the scope with them: SymbolicScope(constraints)",
        wrong=lambda: at_least(2, scope=SymbolicScope(), constraints=["n >= 2"]),
        fixed=lambda fix: at_least(2, scope=SymbolicScope(["n >= 2"])),
        value=lambda found: found is True,
        error=WeftValueError,
    ),
    Fixed(
        "write symbolic_shape('b, 3')",
        wrong=lambda: first(symbolic_shape(("b", 3))),
        fixed=lambda fix: first(symbolic_shape("b, 3")),
        value=lambda found: found == "b",
        error=WeftTypeError,
    ),
    Fixed(
        "make the scope with them: SymbolicScope(constraints)",
        wrong=lambda: export.symbolic_args_specs((THREE,), "n", ["n >= 2"], SymbolicScope()),
        fixed=lambda fix: first(
            export.symbolic_args_specs((THREE,), "n", scope=SymbolicScope(["n >= 2"]))[0].shape
        ),
        value=lambda found: found == "n",
        error=WeftValueError,
    ),
    Fixed(
        "pass the struct to weft.export.export(f)(...), or name numbers",
        wrong=lambda: weft.eval_shape(doubled, struct(symbolic_shape("n"))),
        fixed=lambda fix: weft.eval_shape(doubled, struct((3,))).shape,
        value=lambda found: found == (3,),
        error=WeftTypeError,
    ),
    Fixed(
        "export it for the sizes themselves",
        wrong=lambda: exported(lambda x: x * 2 if x.shape[0] % 2 else x, "n"),
        fixed=lambda fix: exported(lambda x: x * 2 if x.shape[0] % 2 else x, "3"),
        value=2 * THREE,
        error=InconclusiveDimensionOperation,
    ),
    Fixed(
        "make all shapes with one scope",
        wrong=lambda: export.export(weft.jit(jnp.add))(
            struct(symbolic_shape("n")), struct(symbolic_shape("n"))
        ),
        fixed=lambda fix: exported(jnp.add, "n", "n", calls=(THREE, THREE)),
        value=2 * THREE,
        error=WeftValueError,
    ),
    Fixed(
        "give each variable a dimension of its own",
        wrong=lambda: exported(doubled, "2*n"),
        fixed=lambda fix: exported(doubled, "n"),
        value=2 * THREE,
        error=WeftValueError,
    ),
    Fixed(
        "pass arrays of shapes that fit together",
        wrong=lambda: exported(jnp.add, "n", "n", calls=(THREE, THREE[:2])),
        fixed=lambda fix: exported(jnp.add, "n", "n", calls=(THREE, THREE)),
        value=2 * THREE,
        error=ShapeError,
    ),
    Fixed(
        "pass arrays of such sizes, or export it without",
        wrong=lambda: exported(doubled, "n", constraints=["n >= 8"]),
        fixed=lambda fix: exported(doubled, "n"),
        value=2 * THREE,
        error=WeftValueError,
    ),
    Fixed(
        "export it for these sizes themselves",
        wrong=lambda: exported(sized, "n"),
        fixed=lambda fix: exported(sized, "3"),
        value=THREE,
        error=WeftValueError,
    ),
    Fixed(
        "pass an array of 1 dimension",
        wrong=lambda: exported(doubled, "n", calls=(THREE[None],)),
        fixed=lambda fix: exported(doubled, "n", calls=(THREE,)),
        value=2 * THREE,
        error=ShapeError,
    ),
]
