"""References outside of control flow: reading, writing, `jit`, derivatives, `vmap`, errors."""

import pickle

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.errors import (
    LeakedTracerError,
    ShapeError,
    TreeError,
    WeftError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)

pytestmark = pytest.mark.fast


def values(ref):
    return np.asarray(ref[...]).tolist()


def step(ref, x):
    ref[...] += x
    ref[0] = 1.0
    ref.addupdate(3.0, 1)
    return ref[1]


# ---- eager ---------------------------------------------------------------------------------------


def test_parts_are_read_and_written_as_numpy_does():
    ref, wanted = weft.new_ref(jnp.arange(12.0).reshape(3, 4)), np.arange(12.0).reshape(3, 4)
    for index, value in [
        (0, 5.0),
        ((1, slice(1, 3)), np.float32([7.0, 8.0])),
        ((slice(None), 0), 2.0),
        ((..., -1), np.ones(3, np.float32)),
        (np.array([0, 2]), 3.0),
        (None, -1.0),
    ]:
        ref[index] = value
        wanted[index] = value
        np.testing.assert_array_equal(ref[...], wanted)
        np.testing.assert_array_equal(ref[index], wanted[index])


@pytest.mark.parametrize("part", [weft.ds(2, 3), weft.ds(-1, 2), weft.ds(0, 3, 2)])
@pytest.mark.parametrize("jitted", [False, True])
def test_slices_past_the_end(part, jitted):
    ref = weft.new_ref(jnp.arange(8.0).reshape(2, 4))
    uses = [
        lambda ref: ref[..., part],
        lambda ref: ref.__setitem__((0, part), 0.0),
        lambda ref: ref.addupdate(1.0, (slice(None), part)),
        lambda ref: ref.at[0, part],
        lambda ref: ref.at[1][part],
    ]
    for use in uses:
        with pytest.raises(ShapeError, match="reaches past the end") as caught:
            (weft.jit(use) if jitted else use)(ref)
        assert str(part) in caught.value.got
    assert ref[1, weft.ds(1, 2, 2)].shape == (2,) and ref[0, weft.ds(4, 0)].shape == (0,)


def test_parts_of_a_reference_are_handed_on():
    def write(part, i):
        part[0] = 7.0
        part.addupdate(1.0)
        part.addupdate(2.0, np.array([1, 1]))
        part.at[weft.ds(i, 2)][1:] = 9.0
        part.at[-1].set(-1.0)
        return part.swap(3.0, 3), part.at[:2].get()

    wanted = np.arange(12.0).reshape(3, 4) + np.array([[0], [1], [0]])
    wanted[1] = [8, wanted[1, 1] + 4, 9, 3]
    for run in (lambda ref: write(ref.at[1], 1), weft.jit(lambda ref: write(ref.at[1], 1))):
        ref = weft.new_ref(jnp.arange(12.0).reshape(3, 4))
        before, first = run(ref)
        np.testing.assert_array_equal(ref[...], wanted)
        assert before == -1.0 and np.asarray(first).tolist() == [8.0, 10.0]
    part = ref.at[:, 1:]
    assert (part.shape, part.ndim, part.size, len(part)) == ((3, 3), 2, 9, 3)
    assert part.dtype == np.float32 and repr(part) == "RefView(f32[3,3])"
    with pytest.raises(WeftValueError, match="holds no i32"):
        part[0] = np.int32(1)
    with pytest.raises(TypeError, match="without dimensions"):
        len(ref.at[0, 0])


def test_parts_of_a_reference_under_derivatives_and_vmap():
    def total(x):
        ref = weft.new_ref(x)
        row = ref.at[0]
        row[1:] = row[1:] * row[0]
        return (ref[...] ** 2).sum()

    x = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
    (a, b, c), last = x
    wanted = [[2 * a + 2 * a * (b * b + c * c), 2 * a * a * b, 2 * a * a * c], 2 * last]
    np.testing.assert_allclose(weft.grad(total)(x), wanted)
    np.testing.assert_allclose(weft.vmap(weft.grad(total))(x[None])[0], wanted)


def test_slices_of_traced_starts():
    ref = weft.new_ref(jnp.arange(12.0).reshape(3, 4))

    @weft.jit
    def write(ref, i):
        ref[1, weft.ds(i, 2)] = 0.0
        ref.addupdate(10.0, (weft.ds(i, 2), weft.ds(i + 1, 2, 2)))
        return ref[weft.ds(i, 2), 0]

    got = write(ref, 0)
    wanted = np.arange(12.0).reshape(3, 4)
    wanted[1, 0:2] = 0.0
    wanted[0:2, 1:4:2] += 10.0
    np.testing.assert_array_equal(ref[...], wanted)
    np.testing.assert_array_equal(got, wanted[0:2, 0])
    assert weft.ds(None) == slice(None)
    assert str(weft.ds(3)) == "Slice(start=0, size=3, stride=1)"


def test_methods_and_functions_are_the_same():
    a, b = weft.new_ref(jnp.zeros(2)), weft.new_ref(jnp.zeros(2))
    a.set(1.0, 0)
    weft.ref.set(b, 0, 1.0)
    a.addupdate(jnp.ones(2))
    weft.ref.addupdate(b, None, jnp.ones(2))
    assert a.swap(5.0, 1) == weft.ref.swap(b, 1, 5.0) == 1.0
    assert a.get(0) == weft.ref.get(b, 0) == 2.0
    assert values(a) == values(b) == [2.0, 5.0]


def test_equal_positions_add_up():
    ref = weft.new_ref(jnp.zeros(2))
    ref.addupdate(1.0, jnp.array([0, 0]))
    assert values(ref) == [2.0, 0.0]


def test_what_a_reference_is():
    ref = weft.new_ref(jnp.ones((2, 3)))
    assert isinstance(ref, weft.Ref) and not isinstance(ref, weft.Array)
    assert isinstance(weft.typeof(ref), weft.ref.AbstractRef)
    assert str(weft.typeof(ref)) == str(ref.aval) == "Ref{f32[2,3]}"
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((2, 3), np.float32, 2, 6, 2)
    assert ref == ref and ref != weft.new_ref(jnp.ones((2, 3)))
    assert len({ref, ref}) == 1
    assert weft.tree.leaves({"a": ref}) == [ref]
    assert values(pickle.loads(pickle.dumps(ref))) == values(ref)
    assert weft.block_until_ready(ref) is ref
    assert weft.empty_ref(weft.ShapeDtypeStruct((2,), "int32")).dtype == np.int32


def test_a_reference_copies_numpy_arrays():
    given = np.zeros(2, np.float32)
    ref = weft.new_ref(given)
    given[0] = 1.0
    assert values(ref) == [0.0, 0.0]


# ---- jit -----------------------------------------------------------------------------------------


def test_jit_takes_references_and_closes_over_them():
    ref = weft.new_ref(jnp.arange(3.0))
    jitted = weft.jit(step)
    # As JAX 0.10.2 has it: jax.jit(step)(jax.new_ref(jnp.arange(3.0)), 1.0), twice.
    assert [float(jitted(ref, 1.0)) for _ in range(2)] == [5.0, 9.0]
    assert values(ref) == [1.0, 9.0, 4.0]
    closed = weft.jit(lambda x: step(ref, x))
    assert [float(closed(1.0)) for _ in range(2)] == [13.0, 17.0]
    other = weft.new_ref(jnp.zeros(3))
    assert jitted(other, 1.0) == 4.0 and jitted._cache_size() == 1


def test_jit_in_jit():
    ref = weft.new_ref(jnp.zeros(3))
    inner = weft.jit(step)
    assert weft.jit(lambda r, x: inner(r, x) + inner(r, x))(ref, 1.0) == 4.0 + 8.0
    assert weft.jit(lambda x: inner(ref, x), inline=True)(1.0) == 12.0


def test_a_later_value_is_seen():
    ref = weft.new_ref(2.0)
    double = weft.jit(lambda: ref[...] * 2)
    assert double() == 4.0
    ref[...] = 5.0
    assert double() == 10.0
    held = [weft.new_ref(1.0)]
    read = weft.jit(lambda x, r: r[...] + x, static_argnums=1)
    assert read(1.0, held[0]) == 2.0
    held[0][...] = 7.0
    assert read(1.0, held[0]) == 8.0 and read(1.0, weft.new_ref(3.0)) == 4.0


def test_the_program_shows_references():
    jaxpr = weft.make_jaxpr(step)(weft.new_ref(jnp.arange(3.0)), 1.0)
    assert "a:Ref{f32[3]}" in str(jaxpr)
    assert sorted(map(str, jaxpr.effects)) == ["accumulate", "read", "write"]
    ref = weft.new_ref(jnp.arange(3.0))
    assert weft.extend.core.eval_jaxpr(jaxpr, jaxpr.consts, ref, 1.0)[0] == 5.0
    assert values(ref) == [1.0, 5.0, 3.0]
    assert weft.make_jaxpr(lambda x: weft.freeze(weft.new_ref(x)))(1.0).effects == frozenset()
    assert weft.eval_shape(step, ref, 1.0).dtype == np.float32


def test_writes_happen_in_place():
    ref = weft.new_ref(jnp.zeros(1000))
    add = weft.jit(lambda r: r.addupdate(1.0))
    add(ref)
    places = set()
    for _ in range(4):
        add(ref)
        places.add(ref._array().unsafe_buffer_pointer())
    assert len(places) == 1
    assert ref[0] == 5.0


def test_what_was_read_stays():
    start = jnp.arange(3.0)
    ref = weft.new_ref(start)
    add = weft.jit(lambda r: r.addupdate(1.0))
    reads = []
    for _ in range(3):
        add(ref)
        add(ref)
        reads.append(ref[...])
        host = np.asarray(reads[-1])
        repr(ref)
        add(ref)
        np.testing.assert_array_equal(host, reads[-1])
    assert start.tolist() == [0.0, 1.0, 2.0]
    assert [x[0].item() for x in reads] == [2.0, 5.0, 8.0]
    out = weft.jit(lambda r: (r.addupdate(1.0), r[...])[1])
    kept = [out(ref) for _ in range(3)]
    assert [x[0].item() for x in kept] == [10.0, 11.0, 12.0]


def test_two_references_exchange_values():
    a, b = weft.new_ref(jnp.zeros(3)), weft.new_ref(jnp.ones(3))

    @weft.jit
    def exchange(a, b):
        a[...] = b.swap(a[...])

    @weft.jit
    def copy(a, b):
        a[...] = b[...]

    exchange(a, b)
    exchange(a, b)
    exchange(a, b)
    assert (values(a), values(b)) == ([1.0] * 3, [0.0] * 3)
    copy(a, b)
    weft.jit(lambda r: r.addupdate(1.0))(a)
    assert (values(a), values(b)) == ([1.0] * 3, [0.0] * 3)


def test_a_callback_that_raises_leaves_the_reference():
    def refuse(x):
        raise ValueError("no")

    @weft.jit
    def work(ref):
        ref.addupdate(1.0)
        ref[0] = weft.pure_callback(refuse, weft.ShapeDtypeStruct((), "float32"), ref[0])

    ref = weft.new_ref(jnp.zeros(3))
    add = weft.jit(lambda r: r.addupdate(1.0))
    add(ref)
    with pytest.raises(ValueError, match="no"):
        work(ref)
    assert values(ref) == [1.0] * 3


def test_debug_nans_leaves_the_reference():
    ref = weft.new_ref(1.0)
    divide = weft.jit(lambda r, x: r.set(r[...] / x))
    with weft.debug_nans(True):
        divide(ref, 2.0)
        ref[...] = 0.0
        with pytest.raises(weft.errors.NonFiniteError):
            divide(ref, 0.0)
    assert ref[...] == 0.0


def test_without_jit():
    ref = weft.new_ref(0.0)
    with weft.disable_jit():
        weft.jit(lambda r: r.addupdate(1.0))(ref)
    assert ref[...] == 1.0


# ---- derivatives and vmap ------------------------------------------------------------------------


def power(x):
    ref = weft.new_ref(x)
    ref[...] = ref[...] ** 2
    ref[...] *= x
    return ref[...]


def test_derivatives_of_functions_that_make_references():
    assert weft.grad(power)(3.0) == 27.0 and weft.grad(weft.jit(power))(3.0) == 27.0
    assert weft.jit(weft.grad(weft.grad(power)))(3.0) == 18.0
    assert weft.jvp(power, (3.0,), (1.0,)) == (27.0, 27.0)
    assert weft.linearize(power, 3.0)[1](2.0) == 54.0
    assert weft.vmap(weft.grad(power))(jnp.arange(3.0)).tolist() == [0.0, 3.0, 12.0]


def test_derivatives_beside_references():
    ref = weft.new_ref(3.0)
    assert weft.grad(lambda x: x * ref[...])(2.0) == 3.0

    def counted(x, ref):
        ref[...] += 1
        return x * ref[...]

    assert weft.jit(weft.value_and_grad(counted))(2.0, ref) == (8.0, 4.0)
    assert ref[...] == 4.0
    _, pullback = weft.vjp(lambda r, x: r[...] * x, ref, 2.0)
    found = pullback.with_refs(weft.ad.DontWant(), weft.ad.GradValue())(1.0)
    assert found == (weft.ad.DidntWant(), 4.0)


def test_tangents_of_references():
    # jax.jvp(f, (q, 2.0), (qt, 1.0)) with q, qt = new_ref(3.0), new_ref(1.0) in JAX 0.10.2.
    ref, tangent = weft.new_ref(3.0), weft.new_ref(1.0)

    def f(ref, x):
        y = ref[...] ** 2
        ref[...] = x * 3
        return y

    assert weft.jvp(f, (ref, 2.0), (tangent, 1.0)) == (9.0, 6.0)
    assert (ref[...], tangent[...]) == (6.0, 3.0)


def test_cotangents_are_added_to_references():
    ref = weft.new_ref(jnp.zeros(3))

    @weft.jit
    def run(ref, w, xs):
        def body(_, x):
            _, pullback = weft.vjp(lambda w: jnp.sum(jnp.sin(w * x)), w)
            return None, pullback.with_refs(ref)(1.0)

        return lax.scan(body, None, xs)

    run(ref, jnp.arange(3.0), jnp.arange(4.0))
    np.testing.assert_allclose(ref[...], [6.0, -3.2619689, 1.1570767], rtol=1e-6)  # JAX 0.10.2
    _, pullback = weft.vjp(lambda x, y: x * y, 2.0, 3.0)
    total = weft.new_ref(1.0)
    found = pullback.with_refs(total, weft.ad.DontWant())(1.0)
    assert found == (weft.ad.GradRef(), weft.ad.DidntWant())
    assert total[...] == 4.0
    with pytest.raises(TreeError):
        pullback.with_refs(total)(1.0)


def test_the_cotangent_of_a_reference_is_a_reference():
    """References hold, before and after, what JAX 0.10.2 has in them."""

    def write(ref, x):
        ref[...] = x * 2
        return x * 3

    ref, total = weft.new_ref(3.0), weft.new_ref(1.0)
    _, pullback = weft.vjp(write, ref, 2.0)
    assert pullback.with_refs(total, weft.ad.GradValue())(1.0) == (weft.ad.GradRef(), 5.0)
    assert (ref[...], total[...]) == (4.0, 0.0)
    with pytest.raises(ValueError, match="is a reference"):
        pullback(1.0)
    rows = weft.new_ref(jnp.ones(3))
    _, pullback, aux = weft.vjp(
        lambda ref, x: (ref[1] * x, "aux"), weft.new_ref(jnp.arange(3.0)), 2.0, has_aux=True
    )
    assert pullback.with_refs(rows, weft.ad.GradValue())(1.0)[1] == 1.0
    assert rows[...].tolist() == [1.0, 3.0, 1.0] and aux == "aux"
    counter = weft.new_ref(0)

    @weft.jit
    def counted(x):
        _, pullback = weft.vjp(lambda x, c: (c.addupdate(1), x * x)[1], x, counter)
        return pullback.with_refs(weft.ad.GradValue(), weft.ad.DontWant())(1.0)[0]

    assert (counted(3.0), counter[...]) == (6.0, 1)


def test_the_linear_function_writes_tangents():
    def f(ref, x):
        y = ref[...] ** 2
        ref[...] = x * 3
        return y

    ref, tangent = weft.new_ref(3.0), weft.new_ref(1.0)
    y, linear = weft.linearize(f, ref, 2.0)
    assert (y, ref[...]) == (9.0, 6.0)
    assert (linear(tangent, 1.0), tangent[...]) == (6.0, 3.0)


@weft.custom_vjp
def stash(ref, x):
    return x


def stash_bwd(ref, ct):
    ref[...] = ct
    return None, ct


stash.defvjp(lambda ref, x: (x, ref), stash_bwd)


@pytest.mark.parametrize("outer", [lambda f: f, weft.jit])
def test_a_gradient_is_plumbed_out(outer):
    ref = weft.new_ref(0.0)
    got = outer(weft.grad(lambda ref, x: jnp.sin(stash(ref, jnp.sin(x))), 1))(ref, 1.0)
    np.testing.assert_allclose([got, ref[...]], [0.36003947, 0.66636676], rtol=1e-6)  # JAX 0.10.2


def test_rules_of_derivatives_use_references():
    @weft.custom_jvp
    def square(x):
        ref = weft.new_ref(x)
        ref[...] *= x
        return ref[...]

    @square.defjvp
    def _(primals, tangents):
        ref = weft.new_ref(tangents[0])
        ref[...] *= 2 * primals[0]
        return square(primals[0]), ref[...]

    assert weft.grad(square)(3.0) == weft.jit(weft.grad(square))(3.0) == 6.0
    scale = weft.new_ref(2.0)
    scaled = weft.custom_jvp(lambda ref, x: x * ref[...])
    scaled.defjvp(lambda p, t: (scaled(*p), t[1] * p[0][...]))
    assert weft.grad(scaled, 1)(scale, 3.0) == weft.jit(weft.grad(scaled, 1))(scale, 3.0) == 2.0
    assert weft.jit(scaled)(scale, 3.0) == 6.0


def test_vmap_over_references():
    ref = weft.new_ref(jnp.zeros((2, 3)))
    weft.vmap(lambda r, x: r.set(x, 0), in_axes=(1, 0))(ref, jnp.arange(3.0))
    assert values(ref) == [[0.0, 1.0, 2.0], [0.0] * 3]
    other = weft.new_ref(jnp.zeros(3))
    weft.jit(weft.vmap(weft.jit(lambda r, x: r.addupdate(x))))(other, jnp.arange(3.0))
    assert values(other) == [0.0, 1.0, 2.0]
    assert weft.vmap(lambda i: other[i] * 2)(jnp.arange(3)).tolist() == [0.0, 2.0, 4.0]
    held = weft.vmap(lambda r, x: r[0] + x, in_axes=(None, 0))(other, jnp.ones(2))
    assert held.tolist() == [1.0, 1.0]
    made = weft.vmap(lambda x: weft.new_ref(x * 2))(jnp.arange(3.0))
    assert values(made) == [0.0, 2.0, 4.0]


def test_a_mapped_value_in_a_reference_made_inside():
    def f(x):
        ref = weft.new_ref(0.0)
        ref[...] = x
        return ref[...]

    assert weft.vmap(f)(jnp.arange(3.0)).tolist() == [0.0, 1.0, 2.0]


# ---- errors --------------------------------------------------------------------------------------


def frozen():
    ref = weft.new_ref(1.0)
    weft.freeze(ref)
    return ref


def leaked():
    held = []
    weft.jit(lambda x: held.append(weft.new_ref(x)))(1.0)
    return held[0]


REF = weft.new_ref(jnp.zeros(3))


def both(a):
    a[...] = REF[...]


ERRORS = {
    "an array": (WeftTypeError, "no array", lambda: jnp.sin(REF)),
    "arithmetic": (WeftTypeError, "no array", lambda: REF + 1),
    "numpy": (WeftTypeError, "no array", lambda: np.asarray(REF)),
    "a reference in a reference": (WeftTypeError, "no array", lambda: weft.new_ref(REF)),
    "dtype": (WeftValueError, "holds no i32", lambda: REF.set(jnp.arange(3))),
    "shape": (ShapeError, "shape", lambda: REF.set(jnp.zeros(4))),
    "index": (IndexError, "out of bounds", lambda: REF[5]),
    "frozen": (WeftValueError, "after it was frozen", lambda: frozen()[...]),
    "twice": (WeftValueError, "passed twice", lambda: weft.jit(lambda a, b: None)(REF, REF)),
    "traced twice": (
        WeftValueError,
        "passed twice",
        lambda: weft.jit(lambda r: weft.jit(lambda a, b: None)(r, r))(REF),
    ),
    "mapped twice": (WeftValueError, "passed twice", lambda: weft.vmap(lambda a, b: 0)(REF, REF)),
    "branch twice": (
        WeftValueError,
        "passed twice",
        lambda: lax.cond(True, lambda a, b: 0, lambda a, b: 0, REF, REF),
    ),
    "passed and closed over": (WeftValueError, "closes over it", lambda: weft.jit(both)(REF)),
    "mapped and closed over": (WeftValueError, "as an argument", lambda: weft.vmap(both)(REF)),
    "returned": (WeftValueError, "returned a reference", lambda: weft.jit(lambda r: r)(REF)),
    "made and returned": (
        WeftValueError,
        "returned a reference",
        lambda: weft.jit(lambda: weft.new_ref(1.0))(),
    ),
    "scanned": (
        WeftValueError,
        "returned a reference",
        lambda: lax.scan(lambda c, x: (c, REF), 0.0, jnp.zeros(2)),
    ),
    "carried": (
        WeftTypeError,
        "no carried value",
        lambda: lax.scan(lambda c, x: (c, None), REF, jnp.zeros(2)),
    ),
    "leaked": (LeakedTracerError, "used after it", lambda: leaked()[...]),
    "frozen from outside": (
        WeftValueError,
        "from outside is frozen",
        lambda: weft.jit(weft.freeze)(REF),
    ),
    "differentiated": (
        WeftValueError,
        "differentiated value",
        lambda: weft.grad(lambda x: (REF.set(x, 0), x)[1])(1.0),
    ),
    "mapped": (
        WeftValueError,
        "mapped value",
        lambda: weft.vmap(lambda x: REF.set(x, 0))(jnp.zeros(2)),
    ),
    "transposed": (
        WeftNotImplementedError,
        "uses a reference",
        lambda: weft.linear_transpose(lambda x: x * REF[...], jnp.zeros(3)),
    ),
    "lowered": (
        WeftNotImplementedError,
        "uses references",
        lambda: weft.jit(lambda r: r[...]).lower(REF),
    ),
    "gradient": (WeftTypeError, "no array", lambda: weft.grad(lambda r: r[0])(REF)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    kind, says, program = ERRORS[name]
    with pytest.raises(kind, match=says):
        program()
    assert values(REF) == [0.0] * 3


def test_an_unfit_value_changes_nothing():
    ref = weft.new_ref(jnp.zeros(2, "int32"))
    with pytest.raises(WeftError):
        ref[0] = 1.5
    ref[0] = 2
    assert values(ref) == [2, 0]
