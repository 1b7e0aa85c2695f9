"""Functions exported for sizes that are not known yet.

A function is exported for several sizes, and what comes out is generalized (`program_templates`);
a call solves for the sizes, checks them against the constraints, and runs the program with these
sizes filled in, which is kept. Sizes of 1, 2 and 3 and a large one are tried as well: where the
program is another one there, it is refused for such sizes when it is called.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes, tree
from weft.core.shape_struct import ShapeDtypeStruct
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import Fix, ShapeError, WeftNotImplementedError, WeftValueError, api_boundary
from weft.export.call_exported import PortableProgram
from weft.export.exported import Exported
from weft.export.program_templates import (
    Fit,
    Fitter,
    Template,
    bases_of,
    differing_programs,
    template_of,
)
from weft.export.serialized_sizes import sizes_to_data
from weft.export.symbolic_dimensions import SymbolicDimension, SymbolicScope, value_of
from weft.export.symbolic_types import SymbolicType, Values, variables_of
from weft.runtime import client
from weft.runtime.stablehlo import portable_artifact
from weft.tree.static_data import exact_structure

# Tried for each variable; small ones are special to many programs.
_SMALL = (1, 2, 3)
_LARGE = 1009
_FAR = (257, 101, 130, 192, 333, 96)
# Programs on more elements are not run for comparison.
_MANY = 1 << 24
# Of all remainders by small divisors.
_SIZES = (5, 8, 11, 14, 6, 13, 17, 10, 19, 22, 27, 31, 29, 36, 33, 41, 40, 47, 54, 53, 61, 68, 71)
_CHECKS = 2


def symbolic_structs(leaves: Sequence[Any]) -> list[ShapeDtypeStruct]:
    """The arguments whose shapes have symbolic dimensions."""
    return [x for x in leaves if isinstance(x, ShapeDtypeStruct) and x._symbolic is not None]


def holds(scope: SymbolicScope, values: Values) -> bool:
    """Whether the constraints about these variables alone hold."""
    return all(
        value_of(known, values) >= 0
        for known in scope.known
        if set(variables_of([known])) <= set(values)
    ) and all(scope.bounds.get(name, (1, 0))[0] <= value for name, value in values.items())


def sample_points(variables: Sequence[str], scope: SymbolicScope, count: int) -> list[Values]:
    """Different sizes within the constraints, spread to distinguish polynomials; the last ones, for
    checking, are large."""
    small = _points(variables, scope, count - _CHECKS, _SIZES, [])
    return small + _points(variables, scope, _CHECKS, _FAR, small)


def _points(
    variables: Sequence[str],
    scope: SymbolicScope,
    count: int,
    sizes: Sequence[int],
    before: Sequence[Values],
) -> list[Values]:
    out: list[Values] = []
    n = len(sizes)
    for shift in range(n * n):
        values = {}
        for i, name in enumerate(variables):
            low, high = scope.bounds.get(name, (1.0, float("inf")))
            own = sizes[(shift * (i + 1) + i * i * 3 + (shift // n) * i) % n]
            if high != float("inf"):
                own = int(low) + own % (int(high) - int(low) + 1)
            values[name] = own if own >= low else own + int(low)
        if values not in out and values not in before and holds(scope, values):
            out.append(values)
            if len(out) == count:
                return out
    return out


def export_symbolic(
    export_at: Callable[[Values], Exported], types: Sequence[SymbolicType], scope: SymbolicScope
) -> SymbolicExported:
    """The symbolic export of a function; `export_at` exports it for certain sizes, and `types` are
    its arguments with symbolic dimensions, in order."""
    variables = variables_of([n for of in types for n in of.shape])
    count = max(len(basis) for basis in bases_of(variables)) + _CHECKS
    samples = sample_points(variables, scope, count)
    if len(samples) <= _CHECKS:
        raise differing_programs(f"the constraints {scope.constraints} leave too few sizes")
    at = functools.lru_cache(maxsize=None)(
        lambda key: export_at(dict(zip(variables, key, strict=True)))
    )

    def of(values: Values) -> Exported:
        return at(tuple(values[name] for name in variables))

    programs = [of(values) for values in samples]
    first = programs[0]
    _check_alike(programs)
    fitter = Fitter(variables, samples, _CHECKS)
    templates = {
        platform: template_of([program.mlir_module(platform) for program in programs], fitter)
        for platform in first.platforms
    }
    in_types = _argument_types(programs, types)
    columns = zip(*(program.out_avals for program in programs), strict=True)
    out_types = tuple(_fit_type(column, fitter, scope) for column in columns)

    def derivative(made: SymbolicExported) -> SymbolicExported:
        outs = [type for type in out_types if type.tangent().dtype != dtypes.float0]
        every = [*in_types, *(type.tangent() for type in outs)]
        symbolic = [type for type in every if variables_of(type.shape)]
        return export_symbolic(lambda values: of(values).vjp(), symbolic, scope)

    fields = {field.name: getattr(first, field.name) for field in dataclasses.fields(Exported)}
    made = SymbolicExported(
        **fields | {"in_avals": in_types, "out_avals": out_types, "_made": {}},
        _scope=scope,
        _variables=tuple(variables),
        _templates=templates,
        _limits={},
        _derivative=derivative,
        _sample=first,
    )
    made._limits.update({name: _limits(name, samples, of, made) for name in variables})
    return made


def _argument_types(
    programs: Sequence[Exported], types: Sequence[SymbolicType]
) -> tuple[SymbolicType, ...]:
    """The types of all arguments, given the symbolic ones."""
    rest, found = iter(types), []
    for column in zip(*(program.in_avals for program in programs), strict=True):
        if any(of is not column[0] for of in column):
            found.append(next(rest))
        else:
            of = column[0]
            found.append(SymbolicType(of.shape, of.dtype, of.weak_type))
    return tuple(found)


def _check_alike(programs: Sequence[Exported]) -> None:
    first = programs[0]
    for other in programs[1:]:
        if other.out_tree != first.out_tree:
            raise differing_programs(f"the results have the structures {first.out_tree} and others")
        same = len(other._consts) == len(first._consts) and all(
            x.type is y.type and np.array_equal(np.asarray(x), np.asarray(y), equal_nan=True)
            for x, y in zip(first._consts, other._consts, strict=True)
        )
        if not same:
            raise differing_programs(
                "arrays that are made of sizes, and become part of the program"
            )
    if first.nr_devices > 1:
        message = "export with symbolic dimensions for several devices"
        wanted = "a function for one device, or shapes that are numbers"
        raise WeftNotImplementedError(message, wanted=wanted)


def _fit_type(column: Sequence[Any], fitter: Fitter, scope: SymbolicScope) -> SymbolicType:
    first = column[0]
    if any(
        (x.ndim, x.dtype, x.weak_type) != (first.ndim, first.dtype, first.weak_type) for x in column
    ):
        raise differing_programs("results of different ranks or dtypes")
    shape = []
    for lengths in zip(*(x.shape for x in column), strict=True):
        fit = Fit((((), lengths[0]),)) if len(set(lengths)) == 1 else fitter.whole(lengths)
        if fit is None:
            raise differing_programs(f"a result has the lengths {lengths}")
        shape.append(lengths[0] if len(set(lengths)) == 1 else fit.dimension(scope))
    return SymbolicType(tuple(shape), first.dtype, first.weak_type)


def _limits(
    name: str, samples: Sequence[Values], of: Callable[[Values], Exported], made: SymbolicExported
) -> tuple[int, int | None]:
    """The smallest and the largest size of a variable for which the program works (None: any)."""
    base = samples[0]

    def serves(size: int) -> bool:
        values = {**base, name: size}
        if not holds(made._scope, values):
            return True
        try:
            return _same_program(of(values), made._specialize(values))
        except Exception:  # noqa: BLE001 - it cannot be traced for this size
            return False

    least = 1
    for size in _SMALL:
        if not serves(size):
            least = size + 1
    return least, None if serves(_LARGE) else max(values[name] for values in samples)


def _same_program(one: Exported, other: Exported) -> bool:
    """Whether two programs are the same, or give the same results for random numbers. Where a size
    is special the compiler's input may be simpler, and mean the same."""
    if one.out_avals != other.out_avals:
        return False
    if all(one.mlir_module(name) == other.mlir_module(name) for name in one.platforms):
        return True
    here = client.backend().platform
    if here not in one.platforms or sum(of.size for of in one.in_avals) > _MANY:
        return False
    draw = np.random.default_rng(0)
    args, kwargs = one.in_tree.unflatten([_random(draw, of) for of in one.in_avals])
    pairs = zip(
        tree.leaves(one.call(*args, **kwargs)),
        tree.leaves(other.call(*args, **kwargs)),
        strict=True,
    )
    return all(
        np.allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-6, equal_nan=True)
        for a, b in pairs
    )


def _random(draw: np.random.Generator, of: ArrayType) -> Any:
    if of.dtype in dtypes.INEXACT:
        return draw.uniform(0.1, 1.0, of.shape).astype(of.dtype)
    return draw.integers(0, 2, of.shape).astype(of.dtype)


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SymbolicExported(Exported):
    """An exported function some of whose dimensions are symbolic. in_avals, out_avals: the types,
    with symbolic dimensions. What it has besides is that of `Exported`; `mlir_module` shows the
    program for one choice of sizes."""

    _scope: SymbolicScope
    _variables: tuple[str, ...]
    _templates: dict[str, Template]
    # By variable the smallest and the largest size for which the program serves.
    _limits: dict[str, tuple[int, int | None]]
    _derivative: Callable[[SymbolicExported], SymbolicExported] | None
    # The function for one choice of sizes.
    _sample: Exported

    @api_boundary("export")
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with arguments whose shapes fit those of the export.

        Raises ShapeError for shapes that do not fit, WeftValueError for sizes that the constraints
        exclude or for which the program is another one, and what `Exported.call` raises.
        """
        leaves, structure = tree.flatten((args, kwargs))
        if exact_structure(structure) != exact_structure(self.in_tree):
            raise self._other_structure(structure)
        values = self._solve([type_of(user_value(x)).shape for x in leaves])
        return self.specialize(values).call(*args, **kwargs)

    def _solve(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
        """The sizes of the variables, from the shapes of the arguments."""
        values: dict[str, int] = {}
        wanted = [
            (n, length, f"{name}.shape[{i}]")
            for name, of, shape in zip(self._names, self.in_avals, shapes, strict=True)
            for i, (n, length) in enumerate(_pair_dimensions(self.fun_name, name, of.shape, shape))
        ]
        # A dimension that is linear in one unknown variable gives it.
        for _ in range(len(self._variables) + 1):
            for n, length, _ in wanted:
                solved = _solution(n, length, values)
                if solved is not None:
                    values[solved[0]] = solved[1]
        missing = [name for name in self._variables if name not in values]
        if missing:
            message = f"the sizes of {', '.join(missing)} do not follow from shapes of arguments"
            fix = Fix("alone", "give each variable a dimension of its own in some argument")
            raise WeftValueError(message, got=str(self.in_avals), fix=fix)
        for n, length, where in wanted:
            if value_of(n, values) != length:
                message = f"the exported {self.fun_name}: {where} does not fit the other shapes"
                fix = Fix("shape", "pass arrays of shapes that fit together", {"shape": length})
                got = f"{length}, where {dict(values)}"
                raise ShapeError(message, got=got, wanted=str(n), fix=fix)
        self._check_limits(values)
        return values

    def _check_limits(self, values: dict[str, int]) -> None:
        if not holds(self._scope, values) or any(size < 1 for size in values.values()):
            constraints = " and ".join((*self._scope.constraints, "every variable >= 1"))
            message = f"Input shapes do not match the symbolic shape constraint {constraints}"
            fix = Fix("constraint", "pass arrays of such sizes, or export it without")
            raise WeftValueError(message, got=f"{values}", fix=fix)
        for name, size in values.items():
            least, most = self._limits[name]
            if size < least or (most is not None and size > most):
                known = f"{least} <= {name}" + (f" <= {most}" if most is not None else "")
                message = f"the exported {self.fun_name} is another program where {name} is {size}"
                fix = Fix("sizes", "export it for these sizes themselves")
                raise WeftValueError(message, got=f"{values}", wanted=known, fix=fix)

    def specialize(self, values: Values) -> Exported:
        """The exported function for certain sizes."""
        key = tuple(values[name] for name in self._variables)
        out: Exported | None = self._made.get(key)
        if out is None:
            out = self._made[key] = self._specialize(values)
        return out

    def _specialize(self, values: Values) -> Exported:
        every: Sequence[Any] = (*self.in_avals, *self.out_avals)
        types = [of.at(values) for of in every]
        ins, outs = tuple(types[: len(self.in_avals)]), tuple(types[len(self.in_avals) :])
        artifacts = {
            platform: portable_artifact.portable_artifact(
                portable_artifact.parse_text(template.fill_template(values))
            )[0]
            for platform, template in self._templates.items()
        }
        own = self._program
        operands = (*(x.type for x in self._consts), *ins)
        program = PortableProgram(own.name, artifacts, operands, outs, 1, own.any_platform)
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(Exported)}
        derivative = None if self._derivative is None else lambda: self.vjp().specialize(values)
        return Exported(
            **fields
            | {
                "in_avals": ins,
                "out_avals": outs,
                "_program": program,
                "_made": {},
                "_make_vjp": derivative,
            }
        )

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that it was exported for."""
        return tuple(self._templates)

    def check_custom_calls(self) -> None:
        """Raises WeftValueError for custom calls that may mean something else in this process."""
        self._sample.check_custom_calls()

    def _for_one_size(self) -> Exported:
        return self._sample

    def _sizes_to_data(self, sections: Any) -> dict[str, Any] | None:
        return sizes_to_data(self, sections)

    def has_vjp(self) -> bool:
        """Whether there is a derivative: it was exported here, or serialized with one."""
        return self._derivative is not None

    @api_boundary("export")
    def vjp(self) -> SymbolicExported:
        """The derivative in reverse mode, for the same symbolic dimensions."""
        if self._derivative is None:
            super().vjp()
        if "vjp" not in self._made:
            assert self._derivative is not None
            self._made["vjp"] = self._derivative(self)
        out: SymbolicExported = self._made["vjp"]
        return out


def _pair_dimensions(
    function: str, name: str, wanted: Sequence[Any], shape: Sequence[int]
) -> list[tuple[Any, int]]:
    if len(wanted) != len(shape):
        message = f"the exported {function}: {name} has another rank than it was exported for"
        fix = Fix("shape", f"pass an array of {len(wanted)} dimensions", {"rank": len(wanted)})
        raise ShapeError(message, got=f"{shape}", wanted=f"{wanted}", fix=fix)
    return list(zip(wanted, shape, strict=True))


def _solution(n: Any, length: int, values: Values) -> tuple[str, int] | None:
    """The variable that a dimension is linear in, once the others are known, and its size."""
    if not isinstance(n, SymbolicDimension):
        return None
    unknown = [name for name in variables_of([n]) if name not in values]
    if len(unknown) != 1:
        return None
    (name,) = unknown
    low, high, third = (value_of(n, {**values, name: size}) for size in (0, 1, 2))
    slope = high - low
    if slope == 0 or third - high != slope or (length - low) % slope:
        return None
    return name, (length - low) // slope
