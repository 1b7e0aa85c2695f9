"""What one operation computes: arithmetic on inexact numbers, and functions of numbers.

Flops are additions, subtractions, multiplications, divisions and extrema of real numbers: a product
of matrices takes two for each product of two elements, one of complex numbers eight. Functions such
as `exp` are counted apart, one for each element: how much one costs is the compiler's business.
Integers, comparisons, selections, conversions and moves are no flops. Counts of factorizations are
their leading terms (Golub and Van Loan, Matrix Computations, 4th edition, sections 3.2, 4.2, 5.2,
7.5, 8.3 and 8.6), that of a Fourier transform 5 n log2 n (Van Loan, Computational Frameworks for
the Fast Fourier Transform, section 1.4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod
from typing import NamedTuple

from weft import dtypes
from weft.analysis.collective_bytes import size_in_bytes
from weft.builtin_primitives import primitives
from weft.core import rules
from weft.core.access_pattern import elementwise_reads
from weft.core.jaxpr import Equation, Var
from weft.core.types import ArrayType


class Work(NamedTuple):
    """The flops and functions of one operation; `known` is False without a rule."""

    flops: float = 0.0
    functions: float = 0.0
    known: bool = True


Rule = Callable[[Equation], Work]

_REDUCTIONS = "reduce_sum reduce_prod reduce_max reduce_min".split()
_CUMULATIVE = "cumsum cumprod cummax cummin linear_recurrence".split()


# ---- flops -------------------------------------------------------------------------------------


def _is_inexact(of: ArrayType) -> bool:
    return of.dtype in dtypes.INEXACT or of.dtype in dtypes.NARROW_FLOATING


def _real_flops(of: ArrayType, additions: float, products: float = 0.0) -> float:
    """Flops on real numbers: two for a complex addition, six for a complex product."""
    if not _is_inexact(of):
        return 0.0
    if of.dtype.kind == "c":
        return 2 * additions + 6 * products
    return additions + products


def _elementwise(eqn: Equation) -> Work:
    if eqn.primitive.facts.flops == "none":
        return Work()
    (out,) = eqn.outputs
    product = eqn.primitive.facts.flops == "product"
    count = float(out.type.size)
    return Work(_real_flops(out.type, 0 if product else count, count if product else 0))


def _function(eqn: Equation) -> Work:
    sizes = [out.type.size for out in eqn.outputs if _is_inexact(out.type)]
    return Work(functions=float(max(sizes, default=0)))


def _clamp(eqn: Equation) -> Work:
    return Work(_real_flops(eqn.outputs[0].type, 2.0 * eqn.outputs[0].type.size))


def _integer_pow(eqn: Equation) -> Work:
    power = abs(eqn.params["y"])
    products = max(0, power.bit_length() - 1 + power.bit_count() - 1) + (eqn.params["y"] < 0)
    out = eqn.outputs[0].type
    return Work(_real_flops(out, 0, float(products) * out.size))


def _reduction(eqn: Equation) -> Work:
    operand, out = eqn.inputs[0].type, eqn.outputs[0].type
    count = max(0.0, float(operand.size - out.size))
    product = eqn.primitive.name == "reduce_prod"
    return Work(_real_flops(out, 0 if product else count, count if product else 0))


def _cumulative(eqn: Equation) -> Work:
    out = eqn.outputs[0].type
    return Work(_real_flops(out, float(out.size)))


def _window(eqn: Equation) -> Work:
    operand, out = eqn.inputs[0].type, eqn.outputs[0].type
    window, length = eqn.params["window_dimensions"], 1
    for d, size in enumerate(window):
        length *= _pairs(
            operand.shape[d], size, out.shape[d], eqn.params["window_strides"][d],
            eqn.params["padding"][d][0], eqn.params["base_dilation"][d],
            eqn.params["window_dilation"][d],
        )  # fmt: skip
    return Work(_real_flops(out, max(0.0, float(length - out.size))))


def _scatter(eqn: Equation) -> Work:
    updates = eqn.inputs[2].type
    return Work(_real_flops(updates, float(updates.size)))


def _dot(eqn: Equation) -> Work:
    (contracted, _), _ = eqn.params["dimension_numbers"]
    a, out = eqn.inputs[0].type, eqn.outputs[0].type
    count = float(out.size) * prod(a.shape[d] for d in contracted)
    return Work(_real_flops(out, count, count))


def _ragged(eqn: Equation) -> Work:
    """A product of each row with its group's matrix, which costs a product with one matrix."""
    a, out = eqn.inputs[0].type, eqn.outputs[0].type
    count = float(out.size) * a.shape[-1]
    return Work(_real_flops(out, count, count), known=out.ndim == 2)


def _pairs(
    length: int, window: int, outputs: int, stride: int, low: int, dilation: int, spread: int
) -> int:
    """The number of (output, window position) pairs along a dimension that meet an element of the
    operand, not padding or a hole of its dilation."""
    out = 0
    for place in range(window):
        # Output i reads position i * stride + place * spread - low of the dilated operand.
        offset = place * spread - low
        end = (length - 1) * dilation
        first = max(0, math.ceil(-offset / stride))
        last = min(outputs - 1, (end - offset) // stride)
        if dilation == 1:
            out += max(0, last - first + 1)
            continue
        step = dilation // math.gcd(stride, dilation)
        start = next(
            (i for i in range(first, first + step) if (i * stride + offset) % dilation == 0), None
        )
        if start is not None and start <= last:
            out += (last - start) // step + 1
    return out


def _convolution(eqn: Equation) -> Work:
    operand, kernel = (x.type for x in eqn.inputs[:2])
    out, params = eqn.outputs[0].type, eqn.params
    numbers = params["dimension_numbers"]
    pairs = 1
    for d, (i, k, o) in enumerate(
        zip(numbers.lhs_spec[2:], numbers.rhs_spec[2:], numbers.out_spec[2:], strict=True)
    ):
        pairs *= _pairs(
            operand.shape[i], kernel.shape[k], out.shape[o], params["window_strides"][d],
            params["padding"][d][0], params["lhs_dilation"][d], params["rhs_dilation"][d],
        )  # fmt: skip
    batch, features = out.shape[numbers.out_spec[0]], out.shape[numbers.out_spec[1]]
    count = float(pairs) * batch * features * kernel.shape[numbers.rhs_spec[1]]
    return Work(_real_flops(out, count, count))


# ---- factorizations ----------------------------------------------------------------------------


def _matrices(of: ArrayType) -> tuple[float, float, float]:
    """The number of matrices, and the greater and the smaller of their lengths."""
    m, n = of.shape[-2:]
    return float(prod(of.shape[:-2])), float(max(m, n)), float(min(m, n))


def _factorization(flops: Callable[[Equation, float, float], float]) -> Rule:
    def rule(eqn: Equation) -> Work:
        of = eqn.inputs[0].type
        count, m, n = _matrices(of)
        half = count * flops(eqn, m, n) / 2
        return Work(_real_flops(of, half, half))

    return rule


def _triangular_solve(eqn: Equation) -> Work:
    a, b = (x.type for x in eqn.inputs[:2])
    half = float(b.size) * a.shape[-1] / 2
    return Work(_real_flops(b, half, half))


def _svd(eqn: Equation, m: float, n: float) -> float:
    if not eqn.params["compute_uv"]:
        return 4 * m * n**2 - 4 * n**3 / 3
    if eqn.params["full_matrices"]:
        return 4 * m**2 * n + 8 * m * n**2 + 9 * n**3
    return 14 * m * n**2 + 8 * n**3


def _transform(eqn: Equation) -> Work:
    of = max((eqn.inputs[0].type, eqn.outputs[0].type), key=lambda t: t.size)
    lengths = eqn.params["lengths"]
    real = eqn.params["kind"] in ("RFFT", "IRFFT")
    batch = prod(of.shape[: of.ndim - len(lengths)])
    n = prod(lengths)
    return Work((2.5 if real else 5.0) * batch * n * math.log2(max(n, 2)))


# Operations that are a formula: its flops and functions, by element.
_FORMULAS = {
    "relu6": (2.0, 0.0),
    "hard_silu": (5.0, 0.0),
    "silu": (2.0, 1.0),
    "gelu": (8.0, 1.0),
    "gumbel_log_density": (2.0, 1.0),
}


def _formula(eqn: Equation) -> Work:
    flops, functions = _FORMULAS[eqn.primitive.name]
    (out,) = eqn.outputs
    return Work(_real_flops(out.type, flops * out.type.size), functions * out.type.size)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(_FORMULAS, _formula),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    **dict.fromkeys(_CUMULATIVE, _cumulative),
    **dict.fromkeys(("reduce_window_sum", "reduce_window_max", "reduce_window_min"), _window),
    **dict.fromkeys(
        ("scatter_add", "scatter_sub", "scatter_mul", "scatter_max", "scatter_min", "addupdate"),
        _scatter,
    ),
    "clamp": _clamp,
    "integer_pow": _integer_pow,
    "dot_general": _dot,
    "ragged_product": _ragged,
    "conv_general_dilated": _convolution,
    "cumlogsumexp": lambda eqn: Work(functions=2.0 * eqn.outputs[0].type.size),
    "cholesky": _factorization(lambda eqn, m, n: n**3 / 3),
    "lu": _factorization(lambda eqn, m, n: m * n**2 - n**3 / 3),
    "qr": _factorization(lambda eqn, m, n: 4 * m * n**2 - 4 * n**3 / 3),
    "geqrf": _factorization(lambda eqn, m, n: 2 * m * n**2 - 2 * n**3 / 3),
    "geqp3": _factorization(lambda eqn, m, n: 2 * m * n**2 - 2 * n**3 / 3),
    "householder_product": _factorization(lambda eqn, m, n: 2 * m * n**2 - 2 * n**3 / 3),
    "eigh": _factorization(lambda eqn, m, n: 9 * n**3),
    "eig": _factorization(lambda eqn, m, n: 25 * n**3),
    "schur": _factorization(lambda eqn, m, n: 25 * n**3),
    "hessenberg": _factorization(lambda eqn, m, n: 10 * n**3 / 3),
    "tridiagonal": _factorization(lambda eqn, m, n: 4 * n**3 / 3),
    "svd": _factorization(_svd),
    "triangular_solve": _triangular_solve,
    "fft": _transform,
}


def work_of(eqn: Equation) -> Work:
    """Returns what an operation computes; nothing, and `known` False, for one without a rule.

    The programs that it runs are not counted. An elementwise operation that is not listed is a
    function.

    >>> import weft, weft.numpy as jnp
    >>> eqns = weft.make_jaxpr(lambda x, y: jnp.exp(x @ y))(jnp.ones((2, 3)), jnp.ones((3, 4))).eqns
    >>> [(eqn.primitive, *work_of(eqn)[:2]) for eqn in eqns]
    [(dot_general, 48.0, 0.0), (exp, 0.0, 8.0)]
    """
    primitive = eqn.primitive
    if primitive.facts.flops:
        return _elementwise(eqn)
    if primitives.get(primitive.name) is primitive:
        rule = _RULES.get(primitive.name)
        if rule is not None:
            return rule(eqn)
        if rules.access_pattern.get(primitive) is elementwise_reads:
            return _function(eqn)
    return Work(known=False)


# ---- bytes -------------------------------------------------------------------------------------


def is_fusible(eqn: Equation) -> bool:
    """Whether a compiler fuses an operation into the reader of its result."""
    primitive = eqn.primitive
    return primitive.facts.fusible or (
        rules.access_pattern.get(primitive) is elementwise_reads and len(eqn.outputs) == 1
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
