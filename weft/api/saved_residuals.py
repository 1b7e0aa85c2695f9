"""The two passes of reverse mode as functions, and what the first keeps for the second."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.api.autodiff import flat_function, vjp
from weft.api.gradient_arguments import operands
from weft.api.jit import jit
from weft.base import source as sources
from weft.control_flow.checkpoint_policies import name_given
from weft.core.jaxpr import Equation, Jaxpr, Literal
from weft.core.types import ArrayType, type_of
from weft.dtypes import INEXACT
from weft.errors import api_boundary
from weft.interpreters.linearize import linearize_jaxpr
from weft.interpreters.staging import check_function, trace_to_jaxpr
from weft.ops.structural.constants import inline_consts
from weft.tracing.argument_names import argument_names


@api_boundary
def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """What `vjp` of `f` keeps for the backward pass: (type, where it comes from) of each array.

    Nothing is computed. Raises WeftTypeError for arguments that are not arrays.

    Args:
        args: The positional arguments of `f`; only their types matter.
        kwargs: The keyword arguments of `f`.
        f: A function of trees of arrays.

    >>> from weft.ad_checkpoint import saved_residuals
    >>> saved_residuals(lambda x: jnp.exp(x) * 2.0, 1.0)[0][0]
    f32[]~
    """
    name = check_function("saved_residuals", f)
    leaves, in_tree = operands((args, kwargs), "saved_residuals")
    flat, _ = flat_function(lambda a, named: f(*a, **named), in_tree, "saved_residuals")
    types = [type_of(x) for x in leaves]
    jaxpr, consts = trace_to_jaxpr(flat, types, transformation="vjp", name=name)
    jaxpr = inline_consts(jaxpr, consts) if consts else jaxpr
    split = linearize_jaxpr(jaxpr, tuple([of.dtype in INEXACT for of in types]))
    names = argument_names(f, in_tree)
    return list(describe_residuals(split.primal, split.residual_sources, len(jaxpr.outputs), names))


def describe_residuals(
    program: Jaxpr, places: list[tuple[str, int]], count: int, names: list[str]
) -> Iterator[tuple[ArrayType, str]]:
    """Each residual's type and origin."""
    made: dict[Any, Equation] = {v: eqn for eqn in program.eqns for v in eqn.outputs}
    inputs = {v: i for i, v in enumerate(program.inputs)}
    for kind, i in places:
        start = {"input": 0, "output": 0, "extra": count}[kind]
        atom = program.inputs[i] if kind == "input" else program.outputs[start + i]
        if isinstance(atom, Literal):
            yield type_of(atom.value), "from a constant"
        elif atom in inputs:
            yield atom.type, f"from the argument {names[inputs[atom]]}"
        else:
            yield atom.type, origin(made[atom], atom)


def origin(eqn: Equation, var: Any) -> str:
    """The operation that made a value, and the user's line; of a jitted function, that inside."""
    inner = eqn.params.get("jaxpr")
    if isinstance(inner, Jaxpr) and len(inner.outputs) == len(eqn.outputs):
        atom = inner.outputs[eqn.outputs.index(var)]
        for other in inner.eqns:
            if atom in other.outputs:
                return origin(other, atom)
    line = sources.describe(eqn.source)
    name = name_given(eqn)
    if name is not None:
        return f"named {name!r} from {line}"
    if eqn.primitive.name == "constant":
        return "from a constant"
    return f"output of {eqn.primitive.name} from {line}"


@api_boundary
def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Prints what `vjp` of `f` keeps for the backward pass, an array a line; see `checkpoint`.

    Args:
        args: The positional arguments of `f`; only their types matter.
        kwargs: The keyword arguments of `f`.
        f: A function of trees of arrays.

    >>> from weft.ad_checkpoint import print_saved_residuals
    >>> print_saved_residuals(lambda x, y: x * y, jnp.ones(2), jnp.ones(2))
    f32[2] from the argument y
    f32[2] from the argument x
    """
    for of, where in saved_residuals(f, *args, **kwargs):
        print(f"{of} {where}")


def fwd_and_bwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward pass and the backward pass of a function, as two functions.

    `fwd(*args)` returns the result and the residuals (and what `fun` returns beside its result,
    with `has_aux`); `bwd(residuals, cotangent)` returns the cotangents of the arguments that
    `argnums` says: a tuple where it is a sequence. Both are jitted unless `jitted` is False. The
    residuals are a tree, so they can be kept, moved and passed to other functions. Raises what
    `vjp` does.

    >>> import weft, weft.numpy as jnp
    >>> fwd, bwd = weft.fwd_and_bwd(lambda x, y: x * jnp.sin(y), argnums=(0, 1))
    >>> out, residuals = fwd(2.0, 0.0)
    >>> bwd(residuals, 1.0)
    (Array(0., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    single = isinstance(argnums, int)
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def fwd(*args: Any, **kwargs: Any) -> Any:
        places = [number % len(args) for number in numbers]

        def of_some(*some: Any) -> Any:
            full = list(args)
            for place, value in zip(places, some, strict=True):
                full[place] = value
            return fun(*full, **kwargs)

        return vjp(of_some, *[args[place] for place in places], has_aux=has_aux)

    def bwd(residuals: Any, cotangent: Any) -> Any:
        found = residuals(cotangent)
        return found[0] if single else found

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
