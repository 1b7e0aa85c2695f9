"""References in loops, branches, checkpoint and shard_map; numbers of JAX 0.10.2 are marked."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import P, lax
from weft.errors import WeftNotImplementedError, WeftValueError


def values(ref):
    return np.asarray(ref[...]).tolist()


def test_scan_writes_what_it_closes_over():
    def run(ref):
        def body(c, x):
            ref[...] += x
            return c + x, ref[...]

        return lax.scan(body, 0.0, jnp.arange(4.0))

    ref = weft.new_ref(0.0)
    total, seen = run(ref)
    assert (total, seen.tolist(), ref[...]) == (6.0, [0.0, 1.0, 3.0, 6.0], 6.0)
    assert weft.jit(run)(ref)[1].tolist() == [6.0, 7.0, 9.0, 12.0]


def test_scan_along_references():
    ref = weft.new_ref(jnp.arange(3.0))

    def body(c, element):
        element[...] += c
        return c + 1.0, element[...]

    for run in (lambda r: lax.scan(body, 0.0, r), weft.jit(lambda r: lax.scan(body, 0.0, r))):
        run(ref)
    assert values(ref) == [0.0, 3.0, 6.0]


def counting_body(ref):
    def body(i, c):
        ref[...] += 1
        return c

    return body


def test_a_body_closes_over_one_reference_or_another():
    ref = weft.new_ref(0.0)
    for _ in range(3):
        lax.fori_loop(0, 4, counting_body(ref), 0)
    assert ref[...] == 12.0
    other = weft.new_ref(0.0)
    lax.fori_loop(0, 4, counting_body(other), 0)
    assert (ref[...], other[...]) == (12.0, 4.0)


def test_while_loops():
    ref = weft.new_ref(0)

    def grow(c):
        ref[...] += 1
        return c + 1

    assert lax.while_loop(lambda c: ref[...] < 5, grow, 0) == 5
    assert ref[...] == 5
    assert lax.while_loop(lambda c: c < ref[...], lambda c: c + 2, 0) == 6
    assert weft.jit(lambda n: lax.fori_loop(0, n, lambda i, c: grow(c), 0))(3) == 3
    assert ref[...] == 8
    with pytest.raises(WeftNotImplementedError, match="condition"):
        lax.while_loop(lambda c: grow(c) < 5, lambda c: c, 0)


def test_branches():
    a, b = weft.new_ref(1.0), weft.new_ref(0.0)

    def no(x):
        b[...] = x + a[...]

    for run in (lax.cond, weft.jit(lax.cond, static_argnums=(1, 2))):
        run(False, lambda x: a.set(x), no, 3.0)
        assert (a[...], b[...]) == (1.0, 4.0)
    lax.switch(2, [lambda i=i: a.set(float(i)) for i in range(3)])
    assert a[...] == 2.0
    lax.cond(True, lambda r: r.set(7.0), lambda r: None, a)
    assert a[...] == 7.0


def test_checkpoint():
    ref = weft.new_ref(2.0)

    def f(ref, x):
        def inner(x):
            ref[...] = 5.0
            return jnp.sin(x * ref[...])

        return weft.checkpoint(inner)(x)

    np.testing.assert_allclose(weft.grad(f, 1)(ref, 3.0), -3.7984395, rtol=1e-6)  # JAX 0.10.2
    assert ref[...] == 5.0
    assert weft.checkpoint(lambda r, x, n: r.swap(x * n), static_argnums=2)(ref, 3.0, 2) == 5.0
    assert ref[...] == 6.0


def in_a_loop(x):
    ref = weft.new_ref(x)

    def body(c, _):
        ref[...] = jnp.sin(ref[...]) * c
        return c * ref[...], None

    c, _ = lax.scan(body, x, None, length=4)
    return c + ref[...]


def test_derivatives_through_a_loop():
    # 160.61009 in JAX 0.10.2; in double precision by differences:
    def double(x):
        value = c = x
        for _ in range(4):
            value = np.sin(value) * c
            c = c * value
        return c + value

    step = 1e-6
    wanted = (double(1.2 + step) - double(1.2 - step)) / (2 * step)
    np.testing.assert_allclose(weft.grad(in_a_loop)(1.2), wanted, rtol=1e-4)
    np.testing.assert_allclose(weft.jit(weft.grad(in_a_loop))(1.2), wanted, rtol=1e-4)
    np.testing.assert_allclose(weft.grad(weft.checkpoint(in_a_loop))(1.2), wanted, rtol=1e-4)
    np.testing.assert_allclose(weft.vmap(weft.grad(in_a_loop))(jnp.full(2, 1.2)), wanted, 1e-4)


def test_forward_mode_through_while():
    def f(x):
        ref = weft.new_ref(x)
        lax.while_loop(lambda i: i < 3, lambda i: (ref.set(jnp.sin(ref[...])), i + 1)[1], 0)
        return ref[...]

    found = weft.jvp(f, (1.2,), (1.0,))
    np.testing.assert_allclose(found, (0.71932995, 0.15007411), rtol=1e-6)  # JAX 0.10.2


def test_shard_map():
    mesh = weft.make_mesh((4,), ("i",), devices=weft.devices()[:4])
    split = weft.shard_map(
        lambda r, x: r.addupdate(x), mesh=mesh, in_specs=(P("i"), P("i")), out_specs=None
    )
    ref = weft.new_ref(jnp.zeros(4))
    split(ref, jnp.arange(4.0))
    weft.jit(split)(ref, jnp.arange(4.0))
    assert values(ref) == [0.0, 2.0, 4.0, 6.0]
    total = weft.new_ref(jnp.zeros(1))
    weft.shard_map(
        lambda r, x: r.addupdate(lax.psum(x, "i")),
        mesh=mesh,
        in_specs=(P(), P("i")),
        out_specs=None,
    )(total, jnp.arange(4.0))
    assert values(total) == [6.0]
    read = weft.shard_map(lambda x: x + total[...], mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    assert (
        read(jnp.arange(4.0)).tolist() == weft.jit(read)(jnp.arange(4.0)).tolist() == [6, 7, 8, 9]
    )
    for wrap in (lambda f: f, weft.jit):
        write = weft.shard_map(total.set, mesh=mesh, in_specs=P("i"), out_specs=None)
        with pytest.raises((WeftValueError, WeftNotImplementedError)):
            wrap(write)(jnp.arange(4.0))


def test_blocks_in_references_made_inside():
    mesh = weft.make_mesh((4,), ("i",), devices=weft.devices()[:4])

    def work(x):
        ref = weft.new_ref(jnp.zeros(1))
        lax.fori_loop(0, 3, lambda i, c: (ref.addupdate(x), c)[1], 0)
        return ref[...]

    mapped = weft.shard_map(work, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    x = jnp.arange(4.0)
    assert mapped(x).tolist() == weft.jit(mapped)(x).tolist() == [0.0, 3.0, 6.0, 9.0]
    assert weft.grad(lambda x: mapped(x).sum())(x).tolist() == [3.0] * 4


def test_a_sharded_reference_stays_sharded():
    mesh = weft.make_mesh((4,), ("i",), devices=weft.devices()[:4])
    sharding = weft.NamedSharding(mesh, P("i"))
    ref = weft.new_ref(weft.device_put(jnp.arange(8.0), sharding))
    add = weft.jit(lambda r: r.addupdate(1.0))
    for _ in range(3):
        add(ref)
    assert ref.sharding == sharding
    assert values(ref) == [3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]
