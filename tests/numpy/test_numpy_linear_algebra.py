"""Products, einsum and norms: held to NumPy row by row, and einsum to random subscripts."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from numpy_cases import case, check
from weft.errors import ShapeError, WeftValueError

RANDOM = np.random.default_rng(3)


def normal(*shape):
    return RANDOM.normal(size=shape)


V, W, M, P = normal(4), normal(4), normal(3, 4), normal(4, 2)
T, U = normal(2, 3, 4), normal(2, 4, 3)
S = normal(3, 3)
C = normal(3, 4) + 1j * normal(3, 4)
WHOLE = RANDOM.integers(-5, 6, size=(3, 4))
B = WHOLE > 0

SHAPES = [
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((4,), (4, 3)),
    ((3, 4), (4, 2)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 3)),
    ((2, 3, 4), (4, 2)),
    ((3, 4), (2, 4, 2)),
    ((2, 3, 4), (2, 4, 2)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((1, 2, 3, 4), (5, 1, 4, 2)),
    ((2, 1, 3, 4), (2, 3, 4, 1)),
    ((0, 4), (4, 2)),
    ((3, 0), (0, 2)),
]
PRODUCTS = [
    *[
        case("matmul", normal(*a), normal(*b), _vmap=0 not in a, _grad=len(a) + len(b) == 7)
        for a, b in SHAPES
    ],
    case("matmul", T, P, _grad=True),
    case("matmul", C, P),
    case("matmul", WHOLE, WHOLE.T.copy()),
    case("matmul", B, B.T.copy()),
    case("matmul", WHOLE, P),
    case("dot", V, W, _grad=True),
    case("dot", T, U),
    case("dot", M, 2.0),
    case("dot", 2.0, 3),
    case("dot", T, V),
    case("vdot", C, M + 1j),
    case("vdot", M, M, _grad=True),
    case("inner", T, M),
    case("inner", V, 2.0),
    case("outer", V, M, _grad=True),
    case("outer", B, B),
    case("tensordot", T, U, axes=((2, 0), (1, 0)), _grad=True),
    case("tensordot", T, P, axes=1),
    case("tensordot", M, M, axes=2),
    case("tensordot", V, W, axes=0),
    case("tensordot", T, V, axes=(-1, 0)),
    case("kron", M, P, _grad=True),
    case("kron", V, T),
    case("kron", 2.0, V),
    case("cross", normal(2, 3), normal(3), _grad=True),
    case("cross", normal(3, 4), normal(3, 4), axis=0),
    case("cross", normal(3, 4), normal(4, 3), axisa=0, axisc=0),
    case("linalg.multi_dot", [M, P, normal(2, 5), normal(5, 3)]),
    case("linalg.multi_dot", [V, P, normal(2, 5)]),
    case("linalg.multi_dot", [V, P, normal(2, 5), normal(5)]),
    *[case("linalg.matrix_power", S, n) for n in (0, 1, 2, 3, 7, -1, -3)],
    case("linalg.matrix_power", normal(2, 3, 3), 3, _grad=True),
    case("vecdot", T, M, _reference=lambda a, b: np.sum(a * b, -1), _grad=True),
    case("vecdot", C, M, axis=0, _reference=lambda a, b, axis: np.sum(a.conj() * b, axis)),
    case("matvec", T, V, _reference=lambda a, b: a @ b, _vmap=False),
    case("vecmat", V, U, _reference=lambda a, b: a @ b, _vmap=False),
    case("linalg.outer", V, W, _reference=np.outer),
    case(
        "linalg.diagonal", T, offset=1, _reference=lambda x, offset: np.diagonal(x, offset, -2, -1)
    ),
    case("linalg.trace", T, offset=-1, _reference=lambda x, offset: np.trace(x, offset, -2, -1)),
    case("linalg.cross", normal(2, 3), normal(3), _reference=np.cross),
    case("linalg.matmul", M, P, _reference=np.matmul),
    case("linalg.vecdot", M, V, _reference=lambda a, b: a @ b, _vmap=False),
    case("linalg.tensordot", M, P, axes=1, _reference=np.tensordot),
    case("linalg.matrix_transpose", T, _reference=lambda x: np.swapaxes(x, 1, 2)),
]
ORDERS = (None, 0, 1, 2, 3, 0.5, -1, -2, np.inf, -np.inf)
NORMS = [
    *[case("linalg.norm", V, ord=o, _grad=o not in (0, -np.inf)) for o in ORDERS],
    *[case("linalg.norm", T, ord=o, axis=1) for o in ORDERS],
    *[case("linalg.norm", M, ord=o, _grad=True)
      for o in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)],
    *[case("linalg.norm", T, ord=o, axis=(2, 0))
      for o in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)],
    *[case("linalg.norm", C, ord=o, axis=(1, 0), keepdims=True) for o in ("nuc", 2, -2)],
    case("linalg.norm", T),
    case("linalg.norm", C),
    case("linalg.norm", C, ord=1),
    case("linalg.norm", WHOLE, axis=0, keepdims=True),
    case("linalg.norm", T, axis=(0, 1), keepdims=True),
    case("linalg.norm", np.array([0.0, 3.0, 0.0]), ord=3),
    case("linalg.vector_norm", M, _reference=lambda x: np.linalg.norm(x.ravel())),
    case("linalg.vector_norm", M, axis=1, keepdims=True, ord=3,
         _reference=lambda x, axis, keepdims, ord: np.linalg.norm(x, ord, axis, keepdims)),
    case("linalg.matrix_norm", T, ord=1, _reference=lambda x, ord: np.linalg.norm(x, ord, (1, 2))),
]  # fmt: skip
SUBSCRIPTS = [
    ("ij,jk", M, P),
    ("ij,jk->ki", M, P),
    ("ij->ji", M),
    ("ij->", M),
    ("ii->i", S),
    ("ii", S),
    ("iij->j", normal(3, 3, 2)),
    ("i,i", V, W),
    ("i,j->ij", V, W),
    ("i,i->i", V, W),
    ("bij,bjk->bik", T, U),
    ("...ij,...jk->...ik", T, normal(4, 2)),
    ("...i,i->...", T, V),
    ("i...->...", T),
    ("ij,jk,kl->il", M, P, normal(2, 5)),
    ("ij,jk,ik->", M, P, normal(3, 2)),
    ("ij,ij,ij->ij", M, M, M),
    ("a,ab,b", V[:3], M, W),
    ("bij,bkj,k->ik", T, normal(2, 5, 4), normal(5)),
    ("ij,jj->i", normal(2, 3), S),
    (" i j , j k -> i k ", M, P),
    ("ij,j", WHOLE, WHOLE[0]),
    ("ij,kj->ik", B, B),
    ("ij,jk->ik", C, P),
]
EINSUM = [case("einsum", *s, _grad=s[1].dtype == np.float64, _vmap=False) for s in SUBSCRIPTS]
EINSUM += [
    case("einsum", "ij,jk,kl->il", M, P, normal(2, 5), optimize=o)
    for o in (False, "greedy", [(1, 2), (0, 1)])
]
EINSUM[-1] = case(
    "einsum", "ij,jk,kl->il", M, P, P.T.copy(), optimize=[(1, 2), (0, 1)],
    _reference=lambda s, *a, optimize: np.einsum(s, *a),
)  # fmt: skip
EINSUM.append(case("einsum", M, [0, 1], P, [1, 2], [2, 0]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("row", PRODUCTS + NORMS + EINSUM, ids=str)
def test_row(row):
    check(row)


@st.composite
def contractions(draw):
    """Random subscripts of one to three operands, and operands of shapes that fit."""
    sizes = {label: draw(st.integers(1, 3)) for label in "abcd"}
    terms = draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=3))
    labels = sorted(set("".join(terms)))
    out = draw(st.permutations(labels))[: draw(st.integers(0, len(labels)))]
    generator = np.random.default_rng(draw(st.integers(0, 9)))
    operands = [generator.normal(size=[sizes[c] for c in term]) for term in terms]
    return ",".join(terms) + "->" + "".join(out), operands


@hypothesis.settings(max_examples=60)
@hypothesis.given(contractions())
def test_einsum_of_random_subscripts(contraction):
    subscripts, operands = contraction
    with weft.enable_x64():
        out = jnp.einsum(subscripts, *operands)
    np.testing.assert_allclose(out, np.einsum(subscripts, *operands), rtol=1e-10, atol=1e-12)


def test_products_of_two_are_one_primitive():
    def primitives(f, *args):
        return [eqn.primitive.name for eqn in weft.make_jaxpr(f)(*args).jaxpr.eqns]

    assert primitives(jnp.matmul, M, P) == ["dot_general"]
    assert primitives(jnp.matmul, T, U) == ["dot_general"]
    assert primitives(lambda x, y: jnp.einsum("ij,jk->ik", x, y), M, P) == ["dot_general"]
    assert primitives(lambda x, y: jnp.einsum("bij,bjk->bik", x, y), T, U) == ["dot_general"]


def test_preferred_element_type_and_precision():
    half = jnp.ones((64, 64), jnp.bfloat16)
    for f in (jnp.matmul, jnp.dot, lambda x, y, **k: jnp.einsum("ij,jk->ik", x, y, **k)):
        assert f(half, half).dtype == jnp.bfloat16
        out = f(half, half, preferred_element_type=jnp.float32, precision="highest")
        assert out.dtype == np.float32 and float(out[0, 0]) == 64
    small = jnp.ones((4, 4), jnp.int8)
    assert jnp.matmul(small, small, preferred_element_type="int32").dtype == np.int32
    assert jnp.einsum("ij,jk->ik", small, small).dtype == np.int8


def test_promotion():
    assert (
        jnp.matmul(np.ones((2, 2), np.int32), jnp.ones((2, 2), jnp.bfloat16)).dtype == jnp.bfloat16
    )
    assert jnp.dot(2, 3.0).weak_type
    assert jnp.linalg.norm(np.arange(3)).dtype == np.float32


def test_labels_of_einsum_are_values_that_can_be_ordered():
    with weft.enable_x64():
        for rows, shared, columns in (("row", "in", "out"), (100, 7, 60), ((1, 2), (3,), (2, 2))):
            found = jnp.einsum(M, [..., rows, shared], P, [shared, columns], [columns, rows])
            np.testing.assert_allclose(found, (M @ P).T)
        # The result that is not given is in the order of the labels.
        np.testing.assert_allclose(jnp.einsum(M, ["z", "k"], P, ["k", "b"]), (M @ P).T)
        np.testing.assert_allclose(jnp.einsum(M, [np.int64(5), 2], P, [2, 1]), (M @ P).T)


def test_the_norm_of_zeros_has_no_infinite_value():
    assert float(jnp.linalg.norm(jnp.zeros(3), 3)) == 0
    slope = weft.grad(lambda x: jnp.linalg.norm(x, 3))(jnp.array([0.0, 2.0]))
    np.testing.assert_allclose(slope, [0, 1], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize(
    "norm",
    [
        lambda x: jnp.linalg.norm(x, axis=1),
        lambda x: jnp.linalg.norm(x, 3, axis=1),
        lambda x: jnp.linalg.vector_norm(x, axis=1, keepdims=True),
        lambda x: jnp.linalg.norm(x[:, None], "fro", axis=(1, 2)),
        lambda x: jnp.linalg.matrix_norm(x[:, :, None]),
    ],
)
def test_derivatives_of_norms_where_all_is_zero(norm, dtype):
    x = jnp.array([[0, 0], [3, 4]], dtype)
    slope = np.asarray(weft.grad(lambda x: norm(x).sum())(x))
    np.testing.assert_array_equal(slope[0], 0)
    assert np.isfinite(slope).all() and (abs(slope[1]) > 0.1).all()
    _, tangent = weft.jvp(norm, (x,), (jnp.ones_like(x),))
    assert np.ravel(tangent)[0] == 0 and np.isfinite(tangent).all()
    curved = weft.jacfwd(weft.grad(lambda v: jnp.linalg.norm(v)))(jnp.zeros(2))
    assert np.isfinite(curved).all()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: jnp.matmul(M, M), ShapeError, "have lengths 4 and 3"),
        (lambda: jnp.matmul(M, 2.0), ShapeError, "with dimensions"),
        (lambda: jnp.matmul(normal(2, 3, 4), normal(3, 4, 2)), ShapeError, "matmul"),
        (lambda: jnp.dot(M, M), ShapeError, "dot"),
        (lambda: jnp.inner(M, P), ShapeError, "inner"),
        (lambda: jnp.tensordot(M, M, 1), ShapeError, "tensordot"),
        (lambda: jnp.tensordot(M, M, 3), ShapeError, "axes"),
        (lambda: jnp.tensordot(M, M, ((0,), (0, 1))), ShapeError, "as many"),
        (lambda: jnp.cross(V, V), ShapeError, "2 or 3"),
        (lambda: jnp.einsum("ij,jk", M), WeftValueError, "operands"),
        (lambda: jnp.einsum("ij,jk->ix", M, P), WeftValueError, "result"),
        (lambda: jnp.einsum("ij,jk->ii", M, P), WeftValueError, "result"),
        (lambda: jnp.einsum("i1", M), WeftValueError, "read"),
        (lambda: jnp.einsum("ijk", M), WeftValueError, "fit"),
        (lambda: jnp.einsum(M, ["i", 0]), WeftValueError, "ordered"),
        (lambda: jnp.einsum(M, [[], 0]), WeftValueError, "ordered"),
        (lambda: jnp.einsum(M, range(100, 153)), WeftValueError, "52 labels"),
        (lambda: jnp.einsum("i", M), WeftValueError, "fit"),
        (lambda: jnp.einsum("ij,ik", M, P), ShapeError, "label 'i'"),
        (lambda: jnp.linalg.norm(V, "fro"), WeftValueError, "order"),
        (lambda: jnp.linalg.norm(T, 1), ShapeError, "axis"),
        (lambda: jnp.matmul(M, P, unknown=1), TypeError, "unknown"),
    ],
)
def test_wrong_calls_raise(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("axis", [-2, -1, 0, 1])
@pytest.mark.parametrize("shapes", [((2, 2, 2), (2, 2)), ((2, 2), (2, 2, 2)), ((1, 2, 2), (2, 2))])
def test_vecdot_counts_the_axis_in_each_operand(shapes, axis):
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=s) + 1j * rng.normal(size=s) for s in shapes)
    if a.shape[axis] != b.shape[axis]:
        pytest.skip("lengths differ")
    wanted = (np.moveaxis(a, axis, -1).conj() * np.moveaxis(b, axis, -1)).sum(-1)
    for function in (jnp.vecdot, jnp.linalg.vecdot):
        np.testing.assert_allclose(function(a, b, axis=axis), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("factor", [1, -1, 2])
def test_a_cross_product_of_parallel_vectors_is_zero(factor, optimized):
    """Two equal products, of which none may be fused with the difference, jitted or not."""
    x = jnp.asarray(RANDOM.normal(size=(1000, 3)), "float32")
    for function in (jnp.cross, weft.jit(jnp.cross)):
        assert not np.asarray(function(x, factor * x)).any()
        assert not np.asarray(function(x[:, :2], factor * x[:, :2])).any()
