"""The flops of one operation, as declared (see `ops/flops.py`), and the bytes it moves."""

from __future__ import annotations

from weft.analysis.comms_rows import size_in_bytes
from weft.core import rules
from weft.core.access_pattern import elementwise_reads
from weft.core.jaxpr import Equation, Var
from weft.core.primitive import Work
from weft.define.builtin_primitives import primitives
from weft.ops.flops import is_inexact, real_flops


def work_of(eqn: Equation) -> Work:
    """Returns what an operation computes; nothing, and `known` False, for one without a rule.

    The programs that it runs are not counted. An elementwise operation whose declaration says
    nothing is a function.

    >>> import weft, weft.numpy as jnp
    >>> eqns = weft.make_jaxpr(lambda x, y: jnp.exp(x @ y))(jnp.ones((2, 3)), jnp.ones((3, 4))).eqns
    >>> [(eqn.primitive, *work_of(eqn)[:2]) for eqn in eqns]
    [(dot_general, 48.0, 0.0), (exp, 0.0, 8.0)]
    """
    primitive, flops = eqn.primitive, eqn.primitive.facts.flops
    if flops == "none":
        return Work()
    if callable(flops):
        return flops(eqn)
    sizes = [float(out.type.size) for out in eqn.outputs if is_inexact(out.type)]
    if flops:
        (out,) = eqn.outputs
        product = flops == "product"
        size = float(out.type.size)
        return Work(real_flops(out.type, 0 if product else size, size if product else 0))
    if (
        primitives.get(primitive.name) is primitive
        and rules.reads.get(primitive) is elementwise_reads
    ):
        return Work(functions=max(sizes, default=0.0))
    return Work(known=False)


# ---- bytes -------------------------------------------------------------------------------------


def is_fusible(eqn: Equation) -> bool:
    """Whether a compiler fuses an operation into the reader of its result."""
    primitive = eqn.primitive
    return primitive.facts.fusible or (
        rules.reads.get(primitive) is elementwise_reads and len(eqn.outputs) == 1
    )


def is_view(eqn: Equation) -> bool:
    """Whether the result of an operation is its operand under another type."""
    return eqn.primitive.facts.moves_nothing


def moved_bytes(eqn: Equation) -> tuple[float, float]:
    """The bytes that an operation alone reads and writes, where nothing is fused into it.

    A slice or a gather reads what it returns, an update writes what it puts in place, a reshape
    moves nothing. Numbers that stand in the program are not read.

    >>> import weft, weft.numpy as jnp
    >>> (eqn,) = weft.make_jaxpr(lambda x: weft.lax.exp(x))(jnp.ones(10)).eqns
    >>> moved_bytes(eqn)
    (40.0, 40.0)
    """
    facts = eqn.primitive.facts
    if facts.moves_nothing:
        return 0.0, 0.0
    operands = [float(size_in_bytes(x.type)) for x in eqn.inputs if type(x) is Var]
    results = float(sum(size_in_bytes(x.type) for x in eqn.outputs))
    if facts.reads_part:
        return results + sum(operands[1:]), results
    if facts.updates is not None:
        updates = float(size_in_bytes(eqn.inputs[facts.updates].type))
        again = updates if eqn.primitive.name.startswith("scatter_") else 0.0
        return sum(operands[1:]) + again, updates
    return sum(operands), results
