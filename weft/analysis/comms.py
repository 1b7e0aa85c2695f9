"""What a program communicates: `comms` reports it, `assert_comms` holds a test to it."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from weft import dtypes, tree
from weft.analysis.comms_reports import html, list_rows, table
from weft.analysis.comms_rows import KIND_OF, KINDS, CommsRow, rows_of
from weft.analysis.hlo_collectives import compiled_rows
from weft.analysis.occurrences import occurrences
from weft.analysis.overlap import Schedule, schedule
from weft.api.autodiff import vjp
from weft.api.jit import jit, make_jaxpr
from weft.base import source as sources
from weft.core.inner_programs import InnerPrograms
from weft.core.jaxpr import Equation, Jaxpr
from weft.core.types import type_of
from weft.dispatch.jitted import Jitted
from weft.errors import CommunicationError, Fix, WeftError, WeftTypeError, api_boundary
from weft.export.call_exported import call_exported_p
from weft.interpreters.partial_eval import dce_jaxpr
from weft.interpreters.staging import check_function, function_name
from weft.ops.structural.sharding_constraint import sharding_constraint_p
from weft.sharding import NamedSharding
from weft.sharding.mesh import AnyMesh


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class CommsReport:
    """What a program communicates: a row for each collective, and sums over them.

    Printed it is a table; a notebook shows it with a picture. `name` is the function's; `notes` say
    what the rows leave out. Sums multiply with the trips of loops, count a loop of unknown length
    once and all branches of a conditional.

    Args:
        rows: The collectives, in the order of the program.
        program: The function with its arguments, for the compiler; None where there is none.
        mesh: The mesh over which it communicates, where there is one.
    """

    name: str
    rows: tuple[CommsRow, ...]
    notes: tuple[str, ...] = ()
    # The program as one function with its arguments, for the compiler.
    program: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None = None
    mesh: AnyMesh | None = None

    @property
    def total_bytes(self) -> int:
        """The bytes of all collectives on one device, with their trips; see `CommsRow.bytes`."""
        return sum(row.total_bytes for row in self.rows)

    def count(self, kind: str | None = None) -> int:
        """How many collectives of a kind run, or of all kinds. Raises WeftTypeError for a kind that
        does not exist."""
        if kind is not None and kind not in KINDS:
            raise _no_kind("count", kind)
        return sum(row.times for row in self.rows if kind in (None, row.kind))

    def compiled(self) -> CommsReport:
        """The report of the same program from what XLA compiled of it, for these devices.

        It has what the compiler adds where it divides the work by shardings, what it combines (a
        row for each operand), folds or moves. It does not know whose derivative a collective is.
        Lines are those that the program had when it was compiled: of one that was kept on disk,
        those of then. Raises WeftError for a mesh without devices.
        """
        rows = tuple(compiled_rows(self._compiled_text(), self.mesh))
        return dataclasses.replace(self, name=f"{self.name}, compiled", rows=rows, notes=())

    def schedule(self) -> Schedule:
        """Which transfer of the compiled program may run beside which product; see `Schedule`.
        Raises WeftError for a mesh without devices.

        >>> import weft, weft.numpy as jnp
        >>> mesh = weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])
        >>> product = weft.shard_map(
        ...     lambda x, w: weft.nn.gathered_product("sd,df->sf", x, w, "i", gathered="s"),
        ...     mesh=mesh,
        ...     in_specs=(weft.P("i"), weft.P(None, "i")),
        ...     out_specs=weft.P(None, "i"),
        ... )
        >>> report = weft.comms(product, jnp.ones((8, 16)), jnp.ones((16, 8)), gradient=False)
        >>> print(report.schedule().exposed)
        ()
        """
        return schedule(self._compiled_text())

    def _compiled_text(self) -> str:
        assert self.program is not None
        function, args, kwargs = self.program
        jitted = function if isinstance(function, Jitted) else jit(function)
        text: str = jitted.lower(*args, **kwargs).compile().as_text()
        return text

    def __repr__(self) -> str:
        return table(self.name, self.rows, self.notes)

    def _repr_html_(self) -> str:
        return html(self.name, self.rows, self.notes)


@api_boundary
def comms(
    fun: Callable[..., Any],
    *args: Any,
    gradient: bool | None = None,
    strict: bool = False,
    compiled: bool = False,
    **kwargs: Any,
) -> CommsReport:
    """Reports what `fun(*args, **kwargs)` communicates between devices. Nothing is computed.

    fun: a function of arrays; args, kwargs: its arguments: arrays, numbers, ShapeDtypeStructs and
    trees of these. Meshes may be abstract. (If the function has a keyword with one of the names
    below, wrap it in another function.) A row says kind, operation, mesh axes, dtype, bytes for
    each device, how many devices take part, how often it runs, the user's line, the pass, and
    whether it was written or made by a derivative (`type(report.rows[0])` has the details).
    Collectives whose result is not used are left out.

    gradient: whether the program is `fun` with its reverse mode, with respect to all inexact
    arguments and for a cotangent of each inexact result. By default this is so if there are both
    and `fun` has no backward pass itself; a gradient, or a training step, is reported as it is.
    strict: whether to raise CommunicationError for communication that the program does not contain:
    a sum in reverse mode that is the transpose of an inserted cast. compiled: reads what XLA
    compiled, as the report's `compiled` does. Only this shows what the compiler adds if shardings,
    not `shard_map`, divide the work.

    >>> import weft, weft.numpy as jnp
    >>> from weft.sharding import AbstractMesh, PartitionSpec as P
    >>> mesh = AbstractMesh((4,), ("i",))
    >>> @weft.shard_map(mesh=mesh, in_specs=(P(), P("i")), out_specs=P())
    ... def loss(w, x):
    ...     return weft.lax.psum(jnp.sum(w * x), "i")
    >>> report = weft.comms(loss, jnp.ones(3), jnp.ones((4, 3)))
    >>> for row in report.rows:
    ...     print(row.kind, row.operation, row.bytes, row.origin)
    all_reduce psum 4 explicit
    all_reduce psum 12 transpose of pbroadcast (inserted)
    >>> report.count("all_reduce"), report.total_bytes
    (2, 16)
    """
    report = _report(fun, args, kwargs, gradient)
    if strict:
        _check_written(report)
    return report.compiled() if compiled else report


@api_boundary
def assert_comms(
    fun: Callable[..., Any],
    *args: Any,
    all_reduce: int = 0,
    all_gather: int = 0,
    reduce_scatter: int = 0,
    collective_permute: int = 0,
    all_to_all: int = 0,
    total_bytes: int | None = None,
    implied: bool = True,
    gradient: bool | None = None,
    compiled: bool = False,
    **kwargs: Any,
) -> CommsReport:
    """Checks in a test what `fun(*args, **kwargs)` communicates, and returns the report.

    fun, args, kwargs: as in `comms`. all_reduce, all_gather, reduce_scatter, collective_permute,
    all_to_all: how many collectives of this kind run, including trips of loops; a kind that is not
    named must not run at all. total_bytes: if given, the value of `CommsReport.total_bytes`.
    implied: whether there may be sums that the program does not contain, which `strict` of `comms`
    forbids. gradient, compiled: as in `comms`. Raises CommunicationError, an AssertionError, with
    the rows that were found, and WeftTypeError for an operation (`psum`) in place of a kind.

    >>> import weft, weft.numpy as jnp
    >>> from weft.sharding import AbstractMesh, PartitionSpec as P
    >>> mesh = AbstractMesh((4,), ("i",))
    >>> total = weft.shard_map(
    ...     lambda x: weft.lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()
    ... )
    >>> weft.assert_comms(total, jnp.ones(8), all_reduce=1).total_bytes
    8
    """
    wanted = dict(
        zip(
            KINDS,
            (all_reduce, all_gather, reduce_scatter, collective_permute, all_to_all),
            strict=True,
        )
    )
    _check_kinds(fun, kwargs)
    report = _report(fun, args, kwargs, gradient)
    if not implied:
        _check_written(report)
    if compiled:
        report = report.compiled()
    found = {kind: report.count(kind) for kind in KINDS}
    sizes_differ = total_bytes is not None and report.total_bytes != total_bytes
    if found != wanted or sizes_differ:
        raise _differs(report, wanted, found, total_bytes)
    return report


def _differs(
    report: CommsReport, wanted: dict[str, int], found: dict[str, int], total_bytes: int | None
) -> CommunicationError:
    given = {kind: n for kind, n in found.items() if n}
    size = "" if total_bytes is None else f", total_bytes={report.total_bytes}"
    arguments = _arguments(given) + size
    wish = _arguments({kind: n for kind, n in wanted.items() if n}) or "nothing"
    wish += "" if total_bytes is None else f", total_bytes={total_bytes}"
    return CommunicationError(
        f"{report.name} communicates otherwise than asserted",
        got=f"{arguments or 'nothing'}\n{list_rows(report.rows)}",
        wanted=f"{wish}; kinds that are not named do not run",
        where=report.rows[0].line if report.rows else None,
        fix=Fix(
            "counts",
            f"where this is meant, write weft.assert_comms(f, ..., {arguments})"
            if arguments
            else "where this is meant, write weft.assert_comms(f, ...) without counts",
            given | ({} if total_bytes is None else {"total_bytes": report.total_bytes}),
        ),
    )


def _arguments(counts: dict[str, int]) -> str:
    return ", ".join(f"{kind}={n}" for kind, n in counts.items())


def _no_kind(operation: str, kind: Any) -> WeftTypeError:
    fix = Fix("kind", f"for example {KINDS[0]!r}", {"kind": KINDS[0]})
    message = f"{operation} takes a kind of collective"
    return WeftTypeError(
        message, operation=operation, got=repr(kind), wanted=f"one of {KINDS}", fix=fix
    )


# The operations and other spellings that stand for kinds, where one might be written for the other.
_SPELLINGS = {kind.replace("_", ""): kind for kind in KINDS} | {
    **{primitive.name: kind for primitive, kind in KIND_OF.items()},
    "pmean": "all_reduce",
}


def _check_kinds(fun: Any, kwargs: dict[str, Any]) -> None:
    """Raises WeftTypeError for a keyword that is neither a kind nor a parameter of the function."""
    named: Any = ()
    with contextlib.suppress(TypeError, ValueError):
        named = inspect.signature(fun).parameters
    for name, count in kwargs.items():
        kind = _SPELLINGS.get(name, name)
        if kind != name and name not in named:
            raise _wrong_kind(name, kind, count)


def _wrong_kind(name: str, kind: str, count: Any) -> WeftTypeError:
    return WeftTypeError(
        f"assert_comms counts kinds of collectives, and {name} is none",
        got=f"{name}={count!r}",
        wanted=f"one of {KINDS}",
        fix=Fix("kind", f"write {kind}={count!r}", {kind: count}),
    )


def _check_written(report: CommsReport) -> None:
    """Raises CommunicationError for communication that no line of the program asks for."""
    rows = [row for row in report.rows if row.inserted]
    if not rows:
        return
    axes = rows[0].axes
    name = repr(axes[0]) if len(axes) == 1 else repr(axes)
    raise CommunicationError(
        f"{report.name} communicates what nobody wrote: its derivative sums where a cast was "
        "inserted",
        got=list_rows(rows),
        wanted="casts that stand in the program: each is a sum between devices in reverse mode",
        where=rows[0].line,
        fix=Fix(
            "pbroadcast",
            f"write the cast where the sum is meant, lax.pbroadcast(x, {name}) of the operand that "
            f"is equal on all devices; shard_map(..., auto_pbroadcast=False) raises an error at "
            "each place that needs one",
            {"axes": axes},
        ),
    )


# ---- the program -------------------------------------------------------------------------------


def _report(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], gradient: bool | None
) -> CommsReport:
    check_function("comms", fun)
    if isinstance(fun, Jitted):
        fun, args, kwargs = fun.of_dynamic(args, kwargs)
    closed, shapes = make_jaxpr(fun, return_shape=True)(*args, **kwargs)
    jaxpr: Jaxpr = closed.jaxpr
    program: Any = (fun, args, kwargs)
    notes: list[str] = []
    cotangents = list(filter(_inexact, tree.leaves(shapes)))
    if gradient is None:
        found = cotangents and any(map(_inexact, tree.leaves((args, kwargs))))
        differentiate = bool(found) and not bool(
            occurrences(jaxpr, lambda eqn, _: sources.in_backward_pass(eqn.source))
        )
    else:
        differentiate = gradient
    if differentiate:
        both = (_value_and_pullback(fun), (args, kwargs, cotangents))
        try:
            jaxpr, program = make_jaxpr(both[0])(*both[1]).jaxpr, (*both, {})
        except WeftError as error:
            if gradient:
                raise
            notes.append(f"forward pass only: reverse mode is not possible ({error.message})")
    smaller, _ = dce_jaxpr(jaxpr, (True,) * len(jaxpr.outputs), keep_inputs=True)
    rows = tuple(rows_of(smaller))
    if any(row.trips is None for row in rows):
        notes.append("trips ?: in a while loop whose count depends on values; counted once")
    if any(row.branch for row in rows):
        notes.append("trips with |: in a branch of a conditional; all branches are counted")
    meshes, divided, exported = _meshes(smaller, (args, kwargs))
    if exported:
        notes.append("what exported programs communicate is not listed: report.compiled() has it")
    if divided:
        notes.append(
            "what the compiler adds to divide work by shardings is not listed: report.compiled() "
            "has it"
        )
    return CommsReport(
        function_name(fun), rows, tuple(notes), program, meshes[0] if meshes else None
    )


def _inexact(leaf: Any) -> bool:
    return type_of(leaf).dtype in dtypes.INEXACT


def _value_and_pullback(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The forward and backward pass as a function of arguments, keywords and cotangents of inexact
    results; returns the results and the cotangents of inexact arguments."""

    def both(args: Any, kwargs: Any, cotangents: list[Any]) -> Any:
        out, pullback = vjp(lambda args, kwargs: fun(*args, **kwargs), args, kwargs)
        leaves, structure = tree.flatten(out)
        given = iter(cotangents)
        whole = [
            next(given) if _inexact(x) else np.zeros(type_of(x).shape, dtypes.float0)
            for x in leaves
        ]
        found = tree.leaves(pullback(structure.unflatten(whole)))
        # A compiled program has no results of float0, the cotangents of integers.
        return out, [x for x in found if _inexact(x)]

    return both


def _meshes(jaxpr: Jaxpr, arguments: Any) -> tuple[list[AnyMesh], bool, bool]:
    """The meshes of a program, whether the compiler splits work along axes of one, and whether the
    program calls exported ones."""
    shardings = [getattr(leaf, "sharding", None) for leaf in tree.leaves(arguments)]
    meshes = [x.mesh for x in shardings if isinstance(x, NamedSharding)]
    divided, exported = bool(meshes), False

    def matters(eqn: Equation, inner: InnerPrograms) -> bool:
        return inner.mesh is not None or eqn.primitive in (sharding_constraint_p, call_exported_p)

    for one in occurrences(jaxpr, matters):
        params = one.eqn.params
        if one.eqn.primitive is call_exported_p:
            exported = True
        elif one.eqn.primitive is sharding_constraint_p:
            divided = True
            if isinstance(params["sharding"], NamedSharding):
                meshes.append(params["sharding"].mesh)
        else:
            meshes.insert(0, params["manual"].mesh)
            divided |= len(params["manual"].axes) < len(params["manual"].mesh.axis_names)
    return meshes, divided, exported
