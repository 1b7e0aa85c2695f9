"""Registers rules of primitives that are declared outside weft's own `ops/`.

One function per table of `core.rules`, which says what its rule takes and returns. Each returns the
rule, so that it can be written as a decorator's last step, and refuses a second rule for the same
primitive with WeftValueError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core import rules
from weft.core.primitive import Primitive
from weft.core.rules import register_from_outside
from weft.define.checked_lowering import checked_lowering
from weft.errors import Fix, WeftValueError, api_boundary

Rule = Callable[..., Any]
_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def register_jvp(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(primals, tangents, **params) -> (results, tangents)`.

    Primals and tangents are lists of one length; a tangent has the type `type.tangent()` of its
    primal, or is a `Zero`. Results and their tangents are single values, or lists for a primitive
    with several results; a tangent may again be a `Zero`. The rule must be linear in the tangents:
    then it serves `linearize` and reverse mode, too.

    Raises WeftValueError if there is such a rule already.

    >>> from weft.extend.core import Primitive, primitives
    >>> from weft.extend.interpreters import ad
    >>> triple_p = Primitive("triple")
    >>> _ = triple_p.def_impl(lambda x: x * 3.0)
    >>> _ = ad.register_jvp(
    ...     triple_p,
    ...     lambda primals, tangents: (triple_p.bind(*primals), ad.instantiate(tangents[0]) * 3.0),
    ... )
    >>> weft.jvp(triple_p.bind, (2.0,), (1.0,))
    (Array(6., dtype=float32, weak_type=True), Array(3., dtype=float32, weak_type=True))
    """
    return register_from_outside(rules.jvp, primitive, rule)


def register_linearize(primitive: Primitive, rule: Rule) -> Rule:
    """Sets a rule like that of `register_jvp` for linearization and reverse mode alone.

    It may compute the nonlinear part in another way than forward mode does, such as to keep less
    for the backward pass. Without one, the jvp rule serves. Raises as `register_jvp`.
    """
    return register_from_outside(rules.linearize, primitive, rule)


def register_transpose(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(cotangent, *operands, **params) -> one cotangent per operand`.

    The operands in which the primitive is linear are `LinearOperand`s, which have a type and no
    value; the other operands are values. The cotangent has the type of the result's tangent (a list
    of them, some of which may be `Zero`, for a primitive with several results). The rule returns a
    list: a cotangent of the type of the operand's tangent for each linear operand, or a `Zero`, and
    None for the others. Raises WeftValueError if there is such a rule already.

    >>> from weft.extend.core import Primitive
    >>> from weft.extend.interpreters import ad
    >>> triple_p = Primitive("triple")
    >>> _ = triple_p.def_abstract_eval(lambda x: x)
    >>> _ = triple_p.def_impl(lambda x: x * 3.0)
    >>> _ = ad.register_jvp(
    ...     triple_p, lambda primals, tangents: (triple_p.bind(*primals), triple_p.bind(*tangents))
    ... )
    >>> _ = ad.register_transpose(triple_p, lambda ct, x: [triple_p.bind(ct)])
    >>> weft.grad(triple_p.bind)(2.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return register_from_outside(rules.transpose, primitive, rule)


def register_vmap(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(axis, args, dims, **params) -> (results, dims)`.

    `axis` is an `AxisData` (name and size). Each operand with a dim that is an int has the mapped
    axis there, one dimension more than in a single application; a dim of None: it is the same for
    all elements. The rule returns a result with its dim (lists of both for several results),
    counted from 0; None for a result that is the same for all elements. It does not loop in Python
    over the axis. Raises WeftValueError if there is such a rule already.

    >>> from weft.extend.core import Primitive
    >>> from weft.extend.interpreters import batching
    >>> triple_p = Primitive("triple")
    >>> _ = triple_p.def_impl(lambda x: x * 3.0)
    >>> _ = batching.register_vmap(
    ...     triple_p, lambda axis, args, dims: (triple_p.bind(*args), dims[0])
    ... )
    >>> weft.vmap(triple_p.bind)(np.array([1.0, 2.0]))
    Array([3., 6.], dtype=float32)
    """
    return register_from_outside(rules.vmap, primitive, rule)


def register_partial_eval(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(equation, unknown) -> SplitEquation`, for a primitive that holds jaxprs.

    `unknown` has a boolean for each operand. The split says what is computed from the known
    operands now, what is left for later, and which values go from one to the other. A primitive
    without a rule is computed now if all operands are known, and later if one is not. Raises
    WeftValueError if there is such a rule already.
    """
    return register_from_outside(rules.partial_eval, primitive, rule)


def register_dce(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(equation, used) -> (used inputs, equation or None)`.

    `used` has a boolean for each result. The rule returns one for each operand of the equation as
    it was, and an equation that computes the used results from the used operands (None if nothing
    is left). A primitive without a rule is dropped if no result is used and it has no effects, and
    kept whole otherwise. Raises WeftValueError if there is such a rule already.
    """
    return register_from_outside(rules.dce, primitive, rule)


@api_boundary
def register_lowering(primitive: Primitive, rule: Rule, platform: str | None = None) -> Rule:
    """Sets `rule(context, *values, **params)`, which emits StableHLO and returns its values.

    `context` is a `LoweringContext`; the values are MLIR values of the operands' types. The rule
    returns one of the result's type, or a list of them. With `platform` ("cpu", "cuda") it serves
    that platform alone, and goes before the general one.
    Raises WeftValueError if there is such a rule for the platform already.

    Args:
        platform: The platform that the rule serves alone; None for all without one of their own.

    >>> from weft.extend.core import Primitive
    >>> from weft.extend.interpreters import mlir
    >>> double_p = Primitive("double")
    >>> _ = double_p.def_abstract_eval(lambda x: x.strong())
    >>> _ = mlir.register_lowering(double_p, lambda context, x: mlir.hlo.add(x, x))
    >>> weft.jit(double_p.bind)(2.0)
    Array(4., dtype=float32)
    """
    if platform is None:
        return register_from_outside(rules.lower, primitive, rule, checked_lowering)
    if platform not in _PLATFORMS:
        message = f"a lowering of {primitive} for a platform that there is not"
        got, wanted = f"platform={platform!r}", ", ".join(map(repr, _PLATFORMS))
        fix = Fix("platform", "leave it out for a rule that serves all", {"platform": None})
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
    if (primitive, platform) in rules.lower_for_platform:
        raise rules.registered_twice(primitive, f"lowering ({platform})")
    rules.lower_for_platform[primitive, platform] = checked_lowering(primitive, rule)
    return rule


# ---- primitives that hold jaxprs or Python functions --------------------------------------------
# Most of these are used only for primitives that are made with `memoise=False`.


def register_stage(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(args, params) -> (args, params)`, for a primitive that is applied to a Python
    function (`Primitive.call`).

    Called before an application is recorded: it traces `params["function"]`, and returns the
    operands, with the values that the function closes over, and the parameters of the equation,
    which hold the jaxpr instead. Raises WeftValueError if there is such a rule already, and for
    a primitive that was made without `memoise=False`.
    """
    return register_from_outside(rules.stage, primitive, rule)


def register_steps(primitive: Primitive, rule: Rule) -> Rule:
    """Sets a generator `rule(*args, **params)`, for a primitive that holds jaxprs.

    It evaluates an application jaxpr by jaxpr, for the search for a NaN: it yields
    (label, jaxpr, inputs), is sent the results of each, and returns the results of the application.
    The label is for people: "iteration 7 of the scan". Raises WeftValueError if there is such a
    rule already.
    """
    return register_from_outside(rules.steps, primitive, rule)


def register_runs(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(equation) -> InnerPrograms`, for a primitive that holds jaxprs.

    It says which of them an application runs, how often, and on which mesh; what programs send and
    cost is added up by it. Without a rule, the first jaxpr among the parameters runs once. Raises
    WeftValueError if there is such a rule already, and for a primitive that was made without
    `memoise=False`.
    """
    return register_from_outside(rules.runs, primitive, rule)


def register_retype(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(types, params) -> (types, params)`, for a primitive that holds jaxprs.

    The operands have `types`, which may vary along more mesh axes than the jaxprs say, or along
    fewer. The rule returns the types that operands are cast to, and the parameters with jaxprs that
    take them. Raises WeftValueError if there is such a rule already, and for a primitive that
    was made without `memoise=False`.
    """
    return register_from_outside(rules.retype, primitive, rule)


def register_hoist(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(params) -> (operands, params)`, for a primitive that holds jaxprs.

    Its jaxprs may cast inputs to vary along mesh axes. Called after retyping, the rule returns the
    operands of the application without these casts, a list of `CastOperand`, and parameters with
    jaxprs that take them (see `hoist_casts`); None if no cast may move. Raises WeftValueError if
    there is such a rule already, and for a primitive that was made without `memoise=False`.
    """
    return register_from_outside(rules.hoist, primitive, rule)


def register_rebind(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(*args, **params) -> results`, which replaces `bind` where a jaxpr is evaluated
    with operands that may vary along more mesh axes.

    For a primitive that takes operands of certain types only. Raises WeftValueError if there is
    such a rule already.
    """
    return register_from_outside(rules.rebind, primitive, rule)


def register_effects(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(params) -> frozenset of effects`: what an application does besides computing.

    The effects of jaxprs among the parameters are added by themselves. No transformation drops,
    repeats or reorders an equation with effects. Raises WeftValueError if there is such a rule
    already, and for a primitive that was made without `memoise=False`.

    >>> from weft.extend.core import IO, Primitive
    >>> from weft.extend.interpreters import partial_eval
    >>> send_p = Primitive("send", multiple_results=True, memoise=False)
    >>> _ = send_p.def_abstract_eval(lambda x: [])
    >>> _ = partial_eval.register_effects(send_p, lambda params: frozenset([IO]))
    >>> weft.make_jaxpr(lambda x: send_p.bind(x))(1.0).effects
    frozenset({Effect(name='io', ordered=False)})
    """
    return register_from_outside(rules.effects, primitive, rule)


# ---- layouts -----------------------------------------------------------------------------------


def register_layout(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(params) -> one entry per result`: what decides on the layout of a result.

    An entry is the number of the operand whose value the result is, unchanged; a `Layout` that was
    asked for; or None for a computed one, as are all results of primitives without a rule.
    Raises WeftValueError if there is such a rule already.
    """
    return register_from_outside(rules.layout, primitive, rule)


def register_reads(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(equation, demands, inner) -> one tuple of Reads per operand`.

    The order in which the elements of the operands are read, given the same for the results
    (`demands`, a tuple of Reads for each); `inner` gives it for a jaxpr. Primitives without a rule
    go over their operands once, row by row. Raises WeftValueError if there is such a rule
    already.
    """
    return register_from_outside(rules.reads, primitive, rule)


def register_moves(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(equation, result) -> (operand, dims)`, for a primitive that only moves elements.

    The operand that the elements of a result come from, and for each dimension of the result the
    operand's, or -1 for one of length 1 that is new; or (jaxpr, index of its result); or None.
    Raises WeftValueError if there is such a rule already.
    """
    return register_from_outside(rules.moves, primitive, rule)


def register_on_host(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(*values, **params) -> NumPy array` for a primitive that only moves elements.

    It does the same with NumPy arrays, which it must not write to; it may return views of them, and
    returns a list for a primitive that has several results. Small arrays on the CPU are moved so,
    and nothing is compiled before that has happened a thousand times. Raises WeftValueError if
    there is such a rule already.

    >>> from weft.extend.core import Primitive
    >>> from weft.extend.interpreters import mlir
    >>> swapped_p = Primitive("swapped")
    >>> _ = swapped_p.def_abstract_eval(lambda x: x.update(shape=x.shape[::-1]))
    >>> _ = mlir.register_on_host(swapped_p, np.transpose)
    >>> swapped_p.bind(jnp.array([[1, 2]]))
    Array([[1],
           [2]], dtype=int32)
    """
    return register_from_outside(rules.on_host, primitive, rule)


def register_keep_layouts(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(equation, layouts, partitioned) -> equations`, where an equation holds jaxprs.

    The equations compute the same where operands have these layouts (None: not known) and read them
    so in the jaxprs; `partitioned`: whether the compiler splits the module over devices. Raises
    WeftValueError if there is such a rule already.
    """
    return register_from_outside(rules.keep_layouts, primitive, rule)
