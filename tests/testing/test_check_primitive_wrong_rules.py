"""`check_primitive` finds rules that are wrong in one dtype, one axis or one mode only, and finds
nothing in primitives that are unusual and right."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import weft.numpy as wnp
from weft import random
from weft.core.effects import IO
from weft.core.types import type_of
from weft.errors import WeftTypeError
from weft.extend import Example, check_primitive
from weft.extend.core import Primitive, define_primitive
from weft.extend.interpreters import ad, batching, mlir, partial_eval

X = np.array([0.4, 1.1, -0.7])
ROWS = np.array([[0.4, 1.1, -0.7], [0.2, -1.3, 0.9]])


def inexact(*types):
    """A type rule of one result, like the first operand."""
    if any(t.dtype != types[0].dtype or t.dtype.kind not in "fcV" for t in types):
        raise WeftTypeError("floating-point and complex numbers")
    return types[0].update(weak_type=False)


def product(**rules):
    """x * y elementwise, of floating-point and complex numbers.

    `rules` replace right ones; those of derivatives and maps get the primitive and the right rule.
    """
    p = Primitive("product")

    def chosen(name, right):
        return functools.partial(rules[name], p, right) if name in rules else right

    def jvp(primals, tangents):
        (x, y), (dx, dy) = primals, map(ad.instantiate, tangents)
        return p.bind(x, y), dx * y + x * dy

    def vmap(axis, args, dims):
        args = [batching.move_dim(x, d, 0, axis.size) for x, d in zip(args, dims, strict=True)]
        return p.bind(*args), 0

    p.def_abstract_eval(rules.get("type", inexact))
    mlir.register_lowering(p, rules.get("lower", lambda context, x, y: mlir.hlo.multiply(x, y)))
    ad.register_jvp(p, chosen("jvp", jvp))
    batching.register_vmap(p, chosen("vmap", vmap))
    if "linearize" in rules:
        ad.register_linearize(p, chosen("linearize", jvp))
    return p


def twice(**rules):
    """x + x, linear by declaration; `rules` replace right ones."""
    given = {
        "type_rule": inexact,
        "lower": lambda context, x: mlir.hlo.add(x, x),
        "linear": (0,),
        "transpose": lambda ct, x: [ct + ct],
    }
    return define_primitive("twice", **given | rules)


def dtype_of(x):
    return type_of(x).dtype


three = define_primitive("three", body=lambda x, y, z: x * y * z)
rounded = define_primitive("rounded", body=lambda x, y: wnp.floor(x * 5) + y)


# ---- derivatives that are wrong in some dtype --------------------------------------------------


def jvp_of_real_numbers(p, rule, primals, tangents):
    out, t = rule(primals, tangents)
    return out, wnp.conj(t) if dtype_of(t).kind == "c" else t


def jvp_wrong_in_half_precision(p, rule, primals, tangents):
    out, t = rule(primals, tangents)
    return out, t * 2 if dtype_of(t).itemsize == 2 else t


def jvp_of_float32_tangents(p, rule, primals, tangents):
    (x, y), (dx, dy) = primals, map(ad.instantiate, tangents)
    t = dx * y + x * dy
    return p.bind(x, y), wnp.astype(t, np.float32) if dtype_of(t).itemsize == 2 else t


def jvp_wrong_for_two_symbolic_zeros(p, rule, primals, tangents):
    """Right for all operands and for each alone, wrong for the first two of three."""
    zeros = [type(t) is ad.Zero for t in tangents]
    (x, y, z), (dx, dy, dz) = primals, map(ad.instantiate, tangents)
    t = dx * y * z + x * dy * z + x * y * dz
    return p(x, y, z), t * 2 if zeros == [False, False, True] else t


def through_a_wrong_helper():
    """The first derivative is right; the helper's own derivative is not."""
    helper = define_primitive(
        "helper", body=wnp.cos, jvp=lambda primals, tangents: (helper(*primals), tangents[0])
    )
    outer = define_primitive(
        "outer",
        body=wnp.sin,
        jvp=lambda primals, tangents: (outer(*primals), tangents[0] * helper(*primals)),
    )
    return outer


def linearize_of_the_second_operand_only(p, rule, primals, tangents):
    out, _ = rule(primals, tangents)
    return out, ad.instantiate(tangents[1]) * primals[0]


# ---- vmap rules that are wrong for some axes ---------------------------------------------------


def vmap_wrong_for(condition):
    """Elements in reverse where the condition holds of the axis and the dims."""

    def vmap(p, rule, axis, args, dims):
        out, dim = rule(axis, args, dims)
        return (wnp.flip(out) if condition(axis, dims) else out), dim

    return vmap


def vmap_wrong_for_one_element(p, rule, axis, args, dims):
    out, dim = rule(axis, args, dims)
    return (out + 1 if axis.size == 1 else out), dim


def vmap_of_the_first_element(p, rule, axis, args, dims):
    """Takes the second operand of the first element for all."""
    args = [batching.move_dim(x, d, 0, axis.size) for x, d in zip(args, dims, strict=True)]
    return p.bind(args[0], wnp.broadcast_to(args[1][:1], args[1].shape)), 0


# ---- lowerings and types -----------------------------------------------------------------------


def lowering_with_a_counter():
    count = itertools.count()

    def lower(context, x, y):
        for _ in range(next(count)):
            x = mlir.hlo.negate(mlir.hlo.negate(x))
        return mlir.hlo.multiply(x, y)

    return lower


def type_that_widens_weak_operands(x, y):
    return inexact(x, y).update(dtype=np.dtype(np.float16) if x.weak_type else x.dtype)


def type_that_never_varies(x, y):
    return inexact(x, y).update(varying=frozenset())


def double(context, x, *, by):
    return mlir.hlo.add(x, x)


def forgets_the_parameter():
    """x times a parameter, as its body says."""
    return define_primitive("scaled", body=lambda x, *, by: x * by, lower=double)


def without_a_body():
    p = Primitive("tripled")
    p.def_abstract_eval(lambda x, *, by: inexact(x))
    mlir.register_lowering(p, double)
    return p


# ---- programs and effects ----------------------------------------------------------------------


def pair(dce=None, split=None):
    """(x + x, x * x), with rules for programs."""
    p = Primitive("pair", multiple_results=True)
    p.def_abstract_eval(lambda x: [inexact(x)] * 2)
    mlir.register_lowering(p, lambda context, x: [mlir.hlo.add(x, x), mlir.hlo.multiply(x, x)])
    if dce is not None:
        partial_eval.register_dce(p, dce)
    if split is not None:
        partial_eval.register(p, split)
    return p


def dce_that_drops_a_result(eqn, used):
    return ((True,), eqn) if used[0] else ((False,), None)


def sends(jvp=False, vmap=False):
    """x + x, with an effect; rules for derivatives and maps may lose it."""
    p = Primitive("send", memoise=False)
    p.def_abstract_eval(inexact)
    mlir.register_lowering(p, lambda context, x: mlir.hlo.add(x, x))
    partial_eval.register_effects(p, lambda params: frozenset([IO]))
    ad.register_jvp(
        p, lambda primals, ts: ((primals[0] * 2 if jvp else p.bind(*primals)), ts[0] * 2)
    )
    batching.register_vmap(
        p, lambda axis, args, dims: ((args[0] * 2 if vmap else p.bind(*args)), dims[0])
    )
    return p


TWO = [(X, X + 0.3)]
MATRICES = [(ROWS, ROWS + 0.3)]
# What is wrong: the primitive, the examples, and the rule that is named.
WRONG = {
    "a jvp of real numbers only": (lambda: product(jvp=jvp_of_real_numbers), TWO, "jvp"),
    "a jvp wrong in half precision": (lambda: product(jvp=jvp_wrong_in_half_precision), TWO, "jvp"),
    "a jvp with tangents of another dtype": (
        lambda: product(jvp=jvp_of_float32_tangents),
        TWO,
        "jvp",
    ),
    "a jvp wrong for some symbolic zeros": (
        lambda: define_primitive(
            "three",
            body=lambda x, y, z: x * y * z,
            jvp=functools.partial(jvp_wrong_for_two_symbolic_zeros, three, None),
        ),
        [(X, X + 0.3, X - 0.2)],
        "jvp",
    ),
    "a second derivative": (through_a_wrong_helper, [(X,)], "jvp"),
    "a linearize rule unlike the jvp": (
        lambda: product(linearize=linearize_of_the_second_operand_only),
        TWO,
        "linearize",
    ),
    "a transpose with a conjugate": (
        lambda: twice(
            transpose=lambda ct, x: [2 * wnp.conj(ct)] if dtype_of(ct).kind == "c" else [2 * ct]
        ),
        [(X,)],
        "transpose",
    ),
    "a transpose of scalars only": (
        lambda: twice(transpose=lambda ct, x: [wnp.broadcast_to(2 * ct.sum(), x.type.shape)]),
        [(0.5,), (X,)],
        "transpose",
    ),
    "a vmap rule wrong along the last axis": (
        lambda: product(vmap=vmap_wrong_for(lambda axis, dims: tuple(dims) == (2, 2))),
        MATRICES,
        "vmap",
    ),
    "a vmap rule wrong for operands mapped along different axes": (
        lambda: product(vmap=vmap_wrong_for(lambda axis, dims: tuple(dims) == (1, 2))),
        MATRICES,
        "vmap",
    ),
    "a vmap rule wrong for one element": (
        lambda: product(vmap=vmap_wrong_for_one_element),
        TWO,
        "vmap",
    ),
    "a vmap rule of the first element": (
        lambda: product(vmap=vmap_of_the_first_element),
        [(np.float64(0.5), np.float64(1.5))],
        "vmap",
    ),
    "a lowering that changes": (lambda: product(lower=lowering_with_a_counter()), TWO, "lowering"),
    "a lowering that forgets a parameter": (
        forgets_the_parameter,
        [Example((X,), {"by": 3.0})],
        "lowering",
    ),
    "a lowering unlike the results that are wanted": (
        without_a_body,
        [Example((X,), {"by": 3.0}, wanted=3 * X)],
        "lowering",
    ),
    "a type rule that looks at weak types": (
        lambda: product(type=type_that_widens_weak_operands),
        TWO,
        "type",
    ),
    "a type rule that never varies": (lambda: product(type=type_that_never_varies), TWO, "type"),
    "dead-code elimination of what is read": (
        lambda: pair(dce=dce_that_drops_a_result),
        [(X,)],
        "dead-code elimination",
    ),
    "a jvp that loses an effect": (lambda: sends(jvp=True), [(X,)], "jvp"),
    "a vmap rule that loses an effect": (lambda: sends(vmap=True), [(X,)], "vmap"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name):
    make, examples, rule = WRONG[name]
    report = check_primitive(make(), examples)
    assert report.broken == rule, repr(report)


# ---- unusual, and right ------------------------------------------------------------------------


def only(*names):
    """A type rule of one result that takes some dtypes only."""

    def type_rule(x):
        if x.dtype.name not in names:
            raise WeftTypeError(f"an operand of {names}")
        return x.update(weak_type=False)

    return type_rule


def sine(type_rule):
    p = define_primitive(
        "narrow_sine",
        type_rule=type_rule,
        lower=lambda context, x: mlir.hlo.sine(x),
        jvp=lambda primals, ts: (p(*primals), ad.instantiate(ts[0]) * wnp.cos(primals[0])),
    )
    return p


def sum_and_place():
    """A sum, the place of the maximum, and what has no elements."""
    return define_primitive(
        "sum_and_place",
        body=lambda x: (wnp.sum(x), wnp.argmax(x).astype(np.int32), wnp.zeros((0, 2), np.int32)),
        multiple_results=True,
    )


def scalar(x):
    """A type rule of numbers."""
    if x.shape:
        raise WeftTypeError("an operand without dimensions")
    return inexact(x)


RIGHT = {
    "the product": (product, TWO),
    "the doubled": (twice, [(X,)]),
    "no operands": (
        lambda: define_primitive("zeros", body=lambda *, n: wnp.zeros(n, np.float32)),
        [Example((), {"n": 3})],
    ),
    "several results, an integer, nothing": (sum_and_place, [(X,)]),
    "integers": (lambda: define_primitive("next", body=lambda n: n + 1), [(np.arange(3),)]),
    "real and integer operands": (
        lambda: define_primitive("repeated", body=lambda x, n: x[n] * 2.0),
        [(X, np.array([2, 0], np.int32))],
    ),
    "booleans": (lambda: define_primitive("both", body=lambda a, b: a & b), [(X > 0, X < 1)]),
    "keys": (
        lambda: define_primitive("drawn", body=lambda key: random.normal(key, (2,), np.float32)),
        [(random.key(3),)],
    ),
    "keys made": (
        lambda: define_primitive("seeded", body=lambda n: random.wrap_key_data(wnp.stack([n, n]))),
        [(np.uint32(3),)],
    ),
    "scalars only": (lambda: sine(scalar), [(0.4,)]),
    "arrays without elements": (
        lambda: define_primitive("none", body=lambda x: x * wnp.sin(x)),
        [(np.zeros((0, 2)),)],
    ),
    "half precision only": (lambda: sine(only("float16")), [(X.astype(np.float16),)]),
    "bfloat16 only": (lambda: sine(only("bfloat16")), [(wnp.asarray(X, wnp.bfloat16),)]),
    "single precision only": (lambda: sine(only("float32")), [(X.astype(np.float32),)]),
    "complex numbers only": (lambda: sine(only("complex64")), [(X * (1 + 0.5j),)]),
    "the real part": (lambda: define_primitive("part", body=wnp.real), [(X * (1 + 0.5j),)]),
    "constant results": (lambda: define_primitive("five", body=lambda x: np.float32(5)), [(X,)]),
    "effects": (sends, [(X,)]),
    "no derivative in an operand": (
        lambda: define_primitive(
            "rounded",
            body=lambda x, y: wnp.floor(x * 5) + y,
            jvp=lambda primals, tangents: (rounded(*primals), tangents[1]),
        ),
        [Example((X, X), constant=(0,))],
    ),
    "a result that is wanted": (
        lambda: define_primitive("cube", body=lambda x: x**3),
        [Example((X,), wanted=X**3)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(name):
    make, examples = RIGHT[name]
    report = check_primitive(make(), examples).raise_if_failed()
    assert [c for c in report.checks if c.outcome == "passed"]
