"""Fixes of arrays and their types, of values that are traced, of primitives and of their rules."""

from __future__ import annotations

import pickle

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import P, lax
from weft.errors import (
    ArrayProtocolError,
    AxisError,
    ConcretizationTypeError,
    JaxprError,
    LeakedTracerError,
    MissingRuleError,
    NoMeshError,
    ShapeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnboundAxisError,
    WeftOverflowError,
    WeftTypeError,
    WeftValueError,
)
from weft.extend.core import (
    IO,
    ArrayType,
    JaxprBuilder,
    Primitive,
    Var,
    eval_jaxpr,
    primitives,
    register_array_value,
    type_of,
)
from weft.extend.interpreters import ad, partial_eval
from weft.layout import Format, Layout

X = np.arange(4, dtype=np.float32)
MASKED = np.ma.array(X, mask=[False, True, False, False])
NUMBER = weft.ShapeDtypeStruct((), "float32")


def mesh():
    return weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])


def over(function, x):
    return weft.shard_map(function, mesh=mesh(), in_specs=P("i"), out_specs=P("i"))(x)


# ---- values that stand for arrays --------------------------------------------------------------


def value_class(method=None, register=True, **members):
    """A class of values; `method` is its `__weft_array__`."""
    if method is not None:
        members["__weft_array__"] = method
    cls = type("Value", (), members)
    return register_array_value(cls) if register else cls


def twice(cls):
    return jnp.multiply(cls(), 2)


VALUES = [
    Fixed(
        "define __weft_array__",
        wrong=value_class,
        fixed=lambda fix: twice(value_class(lambda self: jnp.ones(2))),
        value=np.full(2, 2),
        error=WeftTypeError,
    ),
    Fixed(
        "let both have the same shape and dtype",
        wrong=lambda: twice(value_class(lambda self: jnp.ones(2), type=type_of(np.int32(0)))),
        fixed=lambda fix: twice(value_class(lambda self: jnp.ones(2), type=type_of(jnp.ones(2)))),
        value=np.full(2, 2),
        error=ArrayProtocolError,
    ),
    Fixed(
        "return an array that is computed with weft.numpy",
        wrong=lambda: twice(value_class(lambda self: "1")),
        fixed=lambda fix: twice(value_class(lambda self: weft.numpy.ones(2))),
        value=np.full(2, 2),
        error=ArrayProtocolError,
    ),
    Fixed(
        "make its class known: weft.extend.core.register_array_value(Value)",
        wrong=lambda: type_of(value_class(lambda self: jnp.ones(2), register=False)()),
        fixed=lambda fix: twice(value_class(lambda self: jnp.ones(2))),
        value=np.full(2, 2),
        error=WeftTypeError,
    ),
    Fixed(
        [
            "fill the masked elements with x.filled(value), and pass the mask ~x.mask as where=",
            "or to weft.numpy.where",
            "x.compressed() leaves them out",
        ],
        wrong=lambda: jnp.sum(MASKED),
        fixed=lambda fix: [
            jnp.sum(MASKED.filled(0), where=~MASKED.mask),
            jnp.sum(weft.numpy.where(~MASKED.mask, MASKED.filled(9), 0)),
            jnp.sum(MASKED.compressed()),
        ],
        value=[5] * 3,
        error=WeftValueError,
    ),
]

# ---- types -------------------------------------------------------------------------------------


def shape_of(shape, **options):
    return weft.eval_shape(lambda x: x, weft.ShapeDtypeStruct(shape, "float32", **options)).shape


def compiled(sharding, **options):
    like = weft.ShapeDtypeStruct((4,), "float32", sharding=sharding)
    return weft.jit(lambda x: 2 * x, **options).lower(like).compile()(X)


TYPES = [
    Fixed(
        "pass allow_extended_dtype=True",
        wrong=lambda: weft.dtypes.canonicalize_dtype(weft.random.key(0).dtype),
        fixed=lambda fix: weft.dtypes.canonicalize_dtype(weft.random.key(0).dtype, **fix.data),
        value=lambda dtype: dtype == weft.random.key(0).dtype,
        error=WeftTypeError,
    ),
    Fixed(
        "pass the shape as a tuple, such as (4,)",
        wrong=lambda: shape_of(4),
        fixed=lambda fix: shape_of((4,)),
        value=(4,),
        error=WeftTypeError,
    ),
    Fixed(
        "pass Format(Layout.AUTO) in in_shardings of jit",
        wrong=lambda: compiled(Format(Layout.AUTO)),
        fixed=lambda fix: compiled(None, in_shardings=Format(Layout.AUTO)),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "pass x.sharding or x.format of an array",
        wrong=lambda: compiled("cpu"),
        fixed=lambda fix: [compiled(jnp.ones(4).sharding), compiled(jnp.ones(4).format)],
        value=[2 * X, 2 * X],
        error=WeftTypeError,
    ),
    Fixed(
        "pass a tuple of such integers",
        wrong=lambda: ArrayType((2.5,), np.dtype("float32")),
        fixed=lambda fix: ArrayType((2,), np.dtype("float32")).shape,
        value=(2,),
        error=WeftTypeError,
    ),
    Fixed(
        "make it in pieces, of shapes such as (2305843009213693951,) at most",
        wrong=lambda: shape_of((2**40, 2**40)),
        fixed=lambda fix: shape_of((2305843009213693951,)),
        value=(2305843009213693951,),
        error=ShapeError,
    ),
    Fixed(
        "write x = x.at[...].set(value), or .add, .multiply, .min, .max",
        wrong=lambda: jnp.arange(3).__setitem__(1, 5),
        fixed=lambda fix: [
            jnp.arange(3).at[1].set(5),
            jnp.arange(3).at[1].add(5),
            jnp.arange(3).at[1].multiply(5),
            jnp.arange(3).at[1].min(5),
            jnp.arange(3).at[1].max(5),
        ],
        value=[np.array([0, x, 2]) for x in (5, 6, 5, 1, 5)],
        error=WeftTypeError,
    ),
]

# ---- named axes --------------------------------------------------------------------------------


def mapped_inside(name):
    return over(lambda x: weft.vmap(lambda y: y - lax.pmean(y, name), axis_name=name)(x), X)


def mapped_outside(name):
    rows = np.stack([X, X])
    return weft.vmap(lambda x: over(lambda y: 2 * y, x), axis_name=name)(rows)


def in_mesh():
    with weft.use_mesh(mesh()):
        return weft.device_put(X, P("i"))


AXES = [
    Fixed(
        "give the axis of the vmap another name",
        wrong=lambda: mapped_inside("i"),
        fixed=lambda fix: mapped_inside("k"),
        value=np.array([-0.5, 0.5] * 2),
        error=AxisError,
    ),
    Fixed(
        "give the axis of the vmap another name",
        wrong=lambda: mapped_outside("i"),
        fixed=lambda fix: mapped_outside("k"),
        value=np.stack([2 * X, 2 * X]),
        error=AxisError,
    ),
    Fixed(
        "call the function under weft.vmap(..., axis_name='i'), or under weft.shard_map",
        wrong=lambda: lax.psum(X, "i"),
        fixed=lambda fix: [
            weft.vmap(lambda x: lax.psum(x, "i"), axis_name="i", out_axes=None)(X),
            weft.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh(), in_specs=P("i"), out_specs=P())(
                X
            ),
        ],
        value=[6, X[:2] + X[2:]],
        error=UnboundAxisError,
    ),
    Fixed(
        "set the mesh, with weft.use_mesh(mesh): …, or pass NamedSharding(mesh, spec)",
        wrong=lambda: weft.device_put(X, P("i")),
        fixed=lambda fix: [
            in_mesh(),
            weft.device_put(X, weft.NamedSharding(mesh(), fix.data["spec"])),
        ],
        value=[X, X],
        error=NoMeshError,
    ),
]

# ---- values that are traced --------------------------------------------------------------------


def branch(x, flag):
    return x if flag else -x


def power(x, n):
    for _ in range(n):
        x = 2 * x
    return x


def leaking():
    kept = []
    weft.jit(lambda x: kept.append(2 * x))(X)
    return kept[0] + 1


def printed(call):
    shown = []
    weft.jit(lambda x: shown.append(call(x)))(1.5)
    return shown[0]


TRACED = [
    Fixed(
        [
            "write the branch with weft.lax.cond or weft.numpy.where",
            "or make the argument static (jit's static_argnums or static_argnames)",
        ],
        wrong=lambda: weft.jit(branch)(X, False),
        fixed=lambda fix: [
            [
                weft.jit(lambda x, flag: lax.cond(flag, lambda x: x, lambda x: -x, x))(X, False),
                weft.jit(lambda x, flag: weft.numpy.where(flag, x, -x))(X, False),
            ],
            [
                weft.jit(branch, static_argnums=1)(X, False),
                weft.jit(branch, static_argnames="flag")(X, flag=False),
            ],
        ],
        value=[[-X, -X]] * 2,
        error=TracerBoolConversionError,
    ),
    Fixed(
        "a loop over range(n) is weft.lax.fori_loop",
        wrong=lambda: weft.jit(power)(X, 3),
        fixed=lambda fix: weft.jit(lambda x, n: weft.lax.fori_loop(0, n, lambda i, x: 2 * x, x))(
            X, 3
        ),
        value=8 * X,
        error=TracerIntegerConversionError,
    ),
    Fixed(
        "index weft arrays with it, not Python lists",
        wrong=lambda: weft.jit(lambda n: [5, 6, 7][n])(1),
        fixed=lambda fix: weft.jit(lambda n: jnp.array([5, 6, 7])[n])(1),
        value=6,
        error=TracerIntegerConversionError,
    ),
    Fixed(
        "keep it an array, or make the argument static where it is one of jit's",
        wrong=lambda: weft.jit(lambda x: 2 * float(x))(3.0),
        fixed=lambda fix: [
            weft.jit(lambda x: 2 * x)(3.0),
            weft.jit(lambda x: 2 * float(x), static_argnums=0)(3.0),
        ],
        value=[6, 6],
        error=ConcretizationTypeError,
    ),
    Fixed(
        "use weft.numpy instead of numpy here",
        wrong=lambda: weft.jit(lambda x: np.asarray(x)[::-1])(X),
        fixed=lambda fix: weft.jit(lambda x: weft.numpy.asarray(x)[::-1])(X),
        value=X[::-1],
        error=TracerArrayConversionError,
    ),
    Fixed(
        "print it without a format, or after the call",
        wrong=lambda: printed(lambda x: f"{2 * x:.1f}"),
        fixed=lambda fix: printed(lambda x: f"{2 * x}") + f"{weft.jit(lambda x: 2 * x)(1.5):.1f}",
        value=lambda text: text.startswith("Traced<") and text.endswith("3.0"),
        error=ConcretizationTypeError,
    ),
    Fixed(
        "return the value from the transformed function",
        wrong=leaking,
        fixed=lambda fix: weft.jit(lambda x: 2 * x)(X) + 1,
        value=2 * X + 1,
        error=LeakedTracerError,
    ),
    Fixed(
        "linearize the function at a point first: weft.linearize(f, x)[1] is linear",
        wrong=lambda: weft.linear_transpose(lambda x: x * x, NUMBER)(1.0),
        fixed=lambda fix: weft.linear_transpose(weft.linearize(lambda x: x * x, 3.0)[1], NUMBER)(
            1.0
        ),
        value=[6],
        error=WeftTypeError,
    ),
    Fixed(
        "or where it is not linear, transpose weft.linearize(f, x)[1]",
        wrong=lambda: weft.linear_transpose(jnp.square, NUMBER)(1.0),
        fixed=lambda fix: weft.linear_transpose(weft.linearize(jnp.square, 3.0)[1], NUMBER)(1.0),
        value=[6],
        error=MissingRuleError,
    ),
]

# ---- programs and primitives -------------------------------------------------------------------


def built(operand=None, primitive=None, given=None):
    """Evaluates a program of one operation, made by a builder."""
    builder = JaxprBuilder("negated")
    x = builder.input(type_of(X) if given is None else given)
    y = builder.apply(primitive or primitives["neg"], x if operand is None else operand(builder))
    args = [X] if operand is None else [X, 2 * X]
    return eval_jaxpr(builder.build([y]), [], *args)


STRANGE = Var(type_of(X))


def transposed(marks):
    jaxpr = weft.make_jaxpr(lambda x: 2 * x)(X).jaxpr
    return partial_eval.dce_jaxpr(jaxpr, marks)[0].outputs


def doubling(name="doubling", **options):
    p = Primitive(name, **options)
    p.def_impl(lambda x: 2 * x)
    p.def_abstract_eval(lambda x: x)
    return p


def with_jvp(rule, *more):
    """The derivative of twice x at 3, by a rule for a primitive."""
    p = doubling()
    for one in (rule, *more):
        ad.register_jvp(p, one)
    return weft.jvp(p.bind, (3.0,), (1.0,))[1]


def right_jvp(primals, tangents, /):
    return 2 * primals[0], 2 * tangents[0]


def apply_doubling(x):
    return DOUBLING.bind(x)


DOUBLING = doubling("doubling of a module")


def with_effects(memoise):
    p = Primitive("with effects", memoise=memoise)
    p.def_abstract_eval(lambda x: x)
    partial_eval.register_effects(p, lambda params: frozenset([IO]))
    return len(weft.make_jaxpr(lambda x: (p.bind(x), x)[1])(1.0).jaxpr.eqns)


def of_type(rule):
    p = Primitive("typed")
    p.def_abstract_eval(rule)
    return weft.eval_shape(p.bind, X).shape


PRIMITIVES = [
    Fixed(
        "pass type_of(x) for an array x like the argument",
        wrong=lambda: built(given=X),
        fixed=lambda fix: built(given=type_of(X)),
        value=[-X],
        error=WeftTypeError,
    ),
    Fixed(
        "pass weft.extend.core.primitives[name]",
        wrong=lambda: built(primitive="neg"),
        fixed=lambda fix: built(primitive=weft.extend.core.primitives["neg"]),
        value=[-X],
        error=WeftTypeError,
    ),
    Fixed(
        "add an argument with input(var.type)",
        wrong=lambda: built(lambda builder: STRANGE),
        fixed=lambda fix: built(lambda builder: builder.input(STRANGE.type)),
        value=[-2 * X],
        error=JaxprError,
    ),
    Fixed(
        "pass a tuple of 1, one for each result",
        wrong=lambda: transposed((True, False)),
        fixed=lambda fix: len(transposed((True,))),
        value=1,
        error=WeftTypeError,
    ),
    Fixed(
        'write Primitive("name")',
        wrong=lambda: Primitive(5),
        fixed=lambda fix: doubling("name").bind(X),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        ["pickle a function that applies it, or its name", "a program goes as weft.export"],
        wrong=lambda: pickle.dumps(DOUBLING),
        fixed=lambda fix: [
            [
                pickle.loads(pickle.dumps(apply_doubling))(X),
                primitives[pickle.loads(pickle.dumps(primitives["neg"].name))].bind(X),
            ],
            weft.export.deserialize(
                weft.export.export(weft.jit(lambda x: 2 * x))(X).serialize()
            ).call(X),
        ],
        value=[[2 * X, -X], 2 * X],
        error=WeftTypeError,
    ),
    Fixed(
        "declare it as def rule(primals, tangents, /)",
        wrong=lambda: with_jvp(lambda primals: primals),
        fixed=lambda fix: with_jvp(right_jvp),
        value=2,
        error=JaxprError,
    ),
    Fixed(
        "make the type rule answer with",
        wrong=lambda: of_type(lambda x: x.shape),
        fixed=lambda fix: of_type(lambda x: ArrayType(x.shape, x.dtype)),
        value=(4,),
        error=JaxprError,
    ),
    Fixed(
        "register one: weft.extend.interpreters.ad.register_jvp(primitive, rule)",
        wrong=lambda: weft.jvp(doubling().bind, (3.0,), (1.0,)),
        fixed=lambda fix: with_jvp(right_jvp),
        value=2,
        error=MissingRuleError,
    ),
    Fixed(
        "write weft.extend.interpreters.ad.register_jvp(primitive, rule)",
        wrong=lambda: ad.register_jvp("doubling", right_jvp),
        fixed=lambda fix: with_jvp(right_jvp),
        value=2,
        error=WeftTypeError,
    ),
    Fixed(
        "make it with Primitive('with effects', memoise=False)",
        wrong=lambda: with_effects(memoise=True),
        fixed=lambda fix: with_effects(memoise=False),
        value=1,
        error=WeftValueError,
    ),
    Fixed(
        "register the rule once",
        wrong=lambda: with_jvp(right_jvp, right_jvp),
        fixed=lambda fix: with_jvp(right_jvp),
        value=2,
        error=WeftValueError,
    ),
]

NUMBERS = [
    Fixed(
        "to a dtype that holds it, for example x.astype('int32')",
        wrong=lambda: np.int8(1) + jnp.asarray([1], "int8") * 300,
        fixed=lambda fix: np.int8(1) + jnp.asarray([1], "int8").astype(fix.data["dtype"]) * 300,
        value=301,
        error=WeftOverflowError,
    ),
    Fixed(
        "ask for a dtype that holds it, for example dtype='int64'",
        wrong=lambda: jnp.full(1, 2**40, dtype="int32"),
        fixed=lambda fix: jnp.full(1, 2**40, dtype=fix.data["dtype"]),
        value=2**40,
        error=WeftOverflowError,
    ),
    Fixed(
        "give it a wider dtype, jnp.asarray(1099511627776, 'int64'), or set enable_x64",
        wrong=lambda: jnp.asarray(2**40),
        fixed=lambda fix: jnp.asarray(int(fix.data["value"]), fix.data["dtype"]),
        value=2**40,
        error=WeftOverflowError,
    ),
]

FIXES = VALUES + TYPES + AXES + TRACED + PRIMITIVES + NUMBERS
