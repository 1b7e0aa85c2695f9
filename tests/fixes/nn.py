"""Fixes of `weft.nn`, `weft.image` and the dtypes."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import config, image, lax, nn, random
from weft.errors import AxisError, DTypeError, ShapeError, WeftTypeError, WeftValueError
from weft.nn import initializers
from weft.sharding import PartitionSpec as P

KEY = random.key(0)
Z = jnp.array([1 + 2j, -1 - 1j])
X = jnp.array([1.0, 2.0, 6.0])
# Queries and keys that give each key the same weight.
Q = jnp.zeros((1, 2, 1, 2))
VALUES = jnp.array([[1.0, 2.0], [3.0, 6.0]]).reshape(1, 2, 1, 2)
MEAN = np.full((1, 2, 1, 2), [2.0, 4.0])
FIRST = np.array([[1.0, 2.0], [2.0, 4.0]]).reshape(1, 2, 1, 2)
SQUARE = jnp.array([[0.0, 2.0], [4.0, 6.0]])
F8 = jnp.array([0.5, 1.5], "float8_e4m3fn")
# The operands of a product over two devices, of which each has half of the rows of the first.
ONES, MATRIX, HALVES = jnp.ones((4, 3)), jnp.ones((3, 2)), (P("i"), P())


def attend(query=Q, key=Q, value=VALUES, *rest, **options):
    return nn.dot_product_attention(query, key, value, *rest, **options)


def moved(shape=(2, 2), dims=(0,), scale=(1.0,), translation=(0.0,), method="linear", x=SQUARE):
    scale, translation = (jnp.array(v) for v in (scale, translation))
    return image.scale_and_translate(x, shape, dims, scale, translation, method)


def strict(add, enable_x64=False):
    with config.override(numpy_dtype_promotion="strict", enable_x64=enable_x64):
        return add()


def product(spec="sd,df->sf", x=ONES, w=MATRIX, specs=HALVES, axes=None, **options):
    """A gathered product over two devices, or a scattered one."""

    def body(x, w):
        x = x if axes is None else lax.pbroadcast(x, axes)
        call = nn.scattered_product if "scattered" in options else nn.gathered_product
        return call(spec, x, w, "i", **options)

    mesh = weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])
    return weft.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P("i"))(x, w)


def summed_first():
    def body(x, w):
        return lax.psum(x.sum(0), "i") @ w

    mesh = weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])
    return weft.shard_map(body, mesh=mesh, in_specs=HALVES, out_specs=P())(ONES, MATRIX)


NN = [
    Fixed(
        "pass operands that have one length for 'd'",
        wrong=lambda: product(w=MATRIX[:1], gathered="s"),
        fixed=lambda fix: product(w=jnp.repeat(MATRIX[:1], 3, 0), gathered="s"),
        value=np.full((8, 2), 3.0),
        error=ShapeError,
    ),
    Fixed(
        "convert the operands: x.astype('int32')",
        wrong=lambda: product(x=ONES > 0, w=MATRIX > 0, gathered="s"),
        fixed=lambda fix: product(
            x=(ONES > 0).astype(fix.data["dtype"]), w=MATRIX.astype("int32"), gathered="s"
        ),
        value=np.full((8, 2), 3),
        error=DTypeError,
    ),
    Fixed(
        "if a sum of equal copies is meant, pass lax.pbroadcast(x, 'i')",
        wrong=lambda: product(specs=(P(), P()), scattered="s"),
        fixed=lambda fix: product(specs=(P(), P()), scattered="s", **fix.data),
        value=np.full((4, 2), 6.0),
        error=AxisError,
    ),
    Fixed(
        "pad the dimension to a multiple of 2",
        wrong=lambda: product(x=ONES[:3], specs=(P(), P(None, "i")), scattered="s"),
        fixed=lambda fix: product(
            x=jnp.pad(ONES[:3], ((0, 3 % fix.data["multiple"]), (0, 0))),
            specs=(P(), P(None, "i")),
            scattered="s",
        ),
        value=np.array([[6.0]] * 3 + [[0.0]]),
        error=ShapeError,
    ),  # fmt: skip
    Fixed(
        "apply it to the real and the imaginary part on their own",
        wrong=lambda: nn.celu(Z),
        fixed=lambda fix: [nn.celu(Z.real), nn.celu(Z.imag)],
        value=[np.array([1, np.expm1(-1)]), np.array([2, np.expm1(-1)])],
        error=DTypeError,
    ),
    Fixed(
        "pass query (B, T, N, H) and key, value (B, S, K, H)",
        wrong=lambda: attend(Q[0, 0]),
        fixed=lambda fix: attend(Q[0, 0].reshape(1, 1, 1, 2)),
        value=MEAN[:, :1],
        error=ShapeError,
    ),
    Fixed(
        "pass a mask of shape (1, 1, 2, 2), or 1 in place of any",
        wrong=lambda: attend(mask=jnp.array([[True, False]] * 3)),
        fixed=lambda fix: [
            attend(mask=jnp.array([[True, False], [True, True]])[None, None]),
            attend(mask=jnp.array([True, True]).reshape(1, 1, 1, 2)),
        ],
        value=[FIRST, MEAN],
        error=ShapeError,
    ),
    Fixed(
        "pass a query_seq_lengths of shape (1,)",
        wrong=lambda: attend(query_seq_lengths=jnp.array([1, 2])),
        fixed=lambda fix: attend(query_seq_lengths=jnp.array([2])),
        value=MEAN,
        error=ShapeError,
    ),
    Fixed(
        "convert it first: key.astype('float32')",
        wrong=lambda: attend(key=jnp.zeros((1, 2, 1, 2), int)),
        fixed=lambda fix: attend(key=jnp.zeros((1, 2, 1, 2), int).astype("float32")),
        value=MEAN,
        error=DTypeError,
    ),
    Fixed(
        "convert it first: query.astype('float32')",
        wrong=lambda: attend(jnp.zeros((1, 2, 1, 2), int)),
        fixed=lambda fix: attend(jnp.zeros((1, 2, 1, 2), int).astype("float32")),
        value=MEAN,
        error=DTypeError,
    ),
    Fixed(
        "take real numbers of it first: value.real, value.imag or abs(value)",
        wrong=lambda: attend(value=VALUES + 0j),
        fixed=lambda fix: attend(value=(VALUES + 0j).real),
        value=MEAN,
        error=DTypeError,
    ),
    Fixed(
        "pass mode='fan_in'",
        wrong=lambda: initializers.variance_scaling(1.0, "fan", "normal"),
        fixed=lambda fix: initializers.variance_scaling(0.0, "fan_in", "normal")(KEY, (2, 3)),
        value=np.zeros((2, 3)),
        error=WeftValueError,
    ),
    Fixed(
        "for inputs alone pass in_axis=0, out_axis=()",
        wrong=lambda: initializers.variance_scaling(1.0, "fan_in", "uniform")(KEY, (300,)),
        fixed=lambda fix: initializers.variance_scaling(
            1.0, "fan_in", "uniform", in_axis=0, out_axis=()
        )(KEY, (300,)),
        # The variance is that of 1 / 300: the bound is the root of 3 / 300.
        value=lambda x: x.shape == (300,) and 0.09 < abs(x).max() <= 0.1,
        error=ShapeError,
    ),
    Fixed(
        "with a deviation that you choose: normal(0.01)",
        wrong=lambda: initializers.he_normal()(KEY, ()),
        fixed=lambda fix: initializers.normal(0.01)(KEY, ()),
        value=lambda x: x.shape == () and abs(x) < 0.1,
        error=ShapeError,
    ),
    Fixed(
        "compare with the index along the axis: x == weft.lax.axis_index('i')",
        wrong=lambda: nn.one_hot(jnp.array([2, 0]), 3, axis="i"),
        fixed=lambda fix: weft.vmap(
            lambda x: x == weft.lax.axis_index("i"), in_axes=None, axis_size=3, axis_name="i"
        )(jnp.array([2, 0])),
        value=np.array([[0, 0, 1], [1, 0, 0]], bool).T,
        error=WeftTypeError,
    ),
    Fixed(
        "sum over it first, and then over the axis",
        wrong=lambda: product("sd,df->f", gathered="s"),
        fixed=lambda fix: summed_first(),
        value=np.full(2, 12.0),
        error=WeftValueError,
    ),
    Fixed(
        "write, for example, 'sd,df->sf'",
        wrong=lambda: product("...d,df->...f", gathered="s"),
        fixed=lambda fix: product(fix.data["spec"], gathered="s"),
        value=np.full((8, 2), 3.0),
        error=WeftValueError,
    ),
    Fixed(
        "pass the label of a dimension of the first operand, for example gathered='s'",
        wrong=lambda: product(gathered="f"),
        fixed=lambda fix: product(**fix.data),
        value=np.full((8, 2), 3.0),
        error=WeftValueError,
    ),
]

IMAGE = [
    Fixed(
        "(*image.shape[:1], *(1, 1)) keeps those in front",
        wrong=lambda: image.resize(SQUARE[None], (1, 1), "linear"),
        fixed=lambda fix: image.resize(
            SQUARE[None], (*SQUARE[None].shape[:1], *(1, 1)), "linear", antialias=False
        ),
        value=np.full((1, 1, 1), 3),
        error=ShapeError,
    ),
    Fixed(
        "pass method='linear'",
        wrong=lambda: moved(method="nearest"),
        fixed=lambda fix: moved(method="linear"),
        value=SQUARE,
        error=WeftValueError,
    ),
    Fixed(
        "add the dimension to spatial_dims, scale and translation",
        wrong=lambda: moved(shape=(2, 1)),
        fixed=lambda fix: moved((2, 1), (0, 1), (1.0, 1.0), (0.0, 0.0)),
        value=SQUARE[:, :1],
        error=ShapeError,
    ),
    Fixed(
        "resample x.real and x.imag by themselves",
        wrong=lambda: image.resize(Z, (1,), "linear"),
        fixed=lambda fix: [image.resize(part, (1,), "linear") for part in (Z.real, Z.imag)],
        value=[np.array([0.0]), np.array([0.5])],
        error=DTypeError,
    ),
    Fixed(
        "take real numbers of it first: scale.real",
        wrong=lambda: moved(scale=(1 + 0j,)),
        fixed=lambda fix: moved(scale=jnp.array([1 + 0j]).real),
        value=SQUARE,
        error=DTypeError,
    ),
]

DTYPES = [
    Fixed(
        "name one of them, for example dtype='float32'",
        wrong=lambda: jnp.ones(2, "float31"),
        fixed=lambda fix: jnp.ones(2, dtype="float32"),
        value=np.ones(2),
        error=DTypeError,
    ),
    Fixed(
        "use the byte order of this machine: dtype='float32'",
        wrong=lambda: jnp.ones(2, np.dtype("float32").newbyteorder("S")),
        fixed=lambda fix: jnp.ones(2, dtype="float32"),
        value=np.ones(2),
        error=DTypeError,
    ),
    Fixed(
        "convert the operands to one dtype, for example x.astype('float32')",
        wrong=lambda: jnp.concatenate([jnp.arange(2), F8, F8.astype("float8_e5m2")]),
        fixed=lambda fix: jnp.concatenate([x.astype("float32") for x in (jnp.arange(2), F8)]),
        value=np.array([0, 1, 0.5, 1.5]),
        error=DTypeError,
    ),
    Fixed(
        "convert the operands to one dtype, for example x.astype('int8')",
        wrong=lambda: jnp.ones(2, "int8") + jnp.ones(2, "int4"),
        fixed=lambda fix: jnp.ones(2, "int8") + jnp.ones(2, "int4").astype("int8"),
        value=np.array([2, 2]),
        error=DTypeError,
    ),
    Fixed(
        "convert the operands to one dtype, for example x.astype('float32')",
        wrong=lambda: strict(lambda: jnp.arange(3) + X),
        fixed=lambda fix: strict(lambda: jnp.arange(3).astype("float32") + X),
        value=np.array([1, 3, 8]),
        error=DTypeError,
    ),
    Fixed(
        "convert the operands to one dtype, for example x.astype('float64')",
        wrong=lambda: strict(lambda: jnp.ones(2, "uint64") + jnp.ones(2, "int64"), True),
        fixed=lambda fix: strict(
            lambda: sum(jnp.ones(2, name).astype("float64") for name in ("uint64", "int64")), True
        ),
        value=np.array([2, 2]),
        error=DTypeError,
    ),
    Fixed(
        "use iinfo for integers",
        wrong=lambda: jnp.finfo("int8"),
        fixed=lambda fix: int(jnp.iinfo("int8").max),
        value=127,
        error=DTypeError,
    ),
    Fixed(
        "use finfo for floating-point numbers",
        wrong=lambda: jnp.iinfo("float16"),
        fixed=lambda fix: float(jnp.finfo("float16").max),
        value=65504.0,
        error=DTypeError,
    ),
]

FIXES = [*NN, *IMAGE, *DTYPES]
