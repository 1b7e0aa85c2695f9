"""Fixes of references."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import P, lax
from weft.errors import (
    LeakedTracerError,
    ShapeError,
    TreeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)

__all__ = ["FIXES"]


def ref():
    return weft.new_ref(jnp.arange(3.0))


def frozen(again):
    own = ref()
    array = weft.freeze(own)
    return (weft.new_ref(array) if again else own)[0]


def lent(own, argument_only):
    def f(r, x):
        (r if argument_only else own).addupdate(x)

    weft.vmap(f)(own, jnp.ones(3))
    return own[...]


def made_inside(returned):
    held = []

    def f(x):
        own = weft.new_ref(x)
        held.append(weft.freeze(own) if returned else own)
        return held[0] if returned else x

    out = weft.jit(f)(2.0)
    return out if returned else held[0][...]


@weft.custom_vjp
def stash(r, x):
    return x


stash.defvjp(lambda r, x: (x, r), lambda r, ct: (r.set(ct), (None, ct))[1])


def plumbed(inside):
    own = weft.new_ref(0.0)
    f = weft.jit(weft.grad(stash, 1)) if inside else weft.grad(weft.jit(stash), 1)
    f(own, 3.0)
    return own[...]


def grown(in_body):
    count = weft.new_ref(0)

    def condition(c):
        if not in_body:
            count[...] += 1
        return c < 3

    def body(c):
        if in_body:
            count[...] += 1
        return c + 1

    lax.while_loop(condition, body, 0)
    return count[...]


def carried(closed):
    own = ref()
    if closed:
        return lax.scan(lambda c, x: (c + own[0], None), 1.0, jnp.zeros(2))[0]
    return lax.scan(lambda c, x: (c, None), own, jnp.zeros(2))[0]


def blocks(outside):
    own = weft.new_ref(jnp.zeros(1))
    mesh = weft.make_mesh((1,), ("i",), devices=weft.devices()[:1])

    def f(x):
        if outside:
            return x
        own[...] = x
        return x

    out = weft.jit(weft.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i")))(jnp.ones(1))
    if outside:
        own[...] = out
    return own[...]


def pulled(marks):
    own = weft.new_ref(1.0)
    _, pullback = weft.vjp(lambda x, y: x * y, 2.0, 3.0)
    pullback.with_refs(own, *marks)(1.0)
    return own[...]


def of_reference(marks):
    own = weft.new_ref(1.0)
    _, pullback = weft.vjp(lambda ref, x: ref[...] * x, weft.new_ref(3.0), 2.0)
    (pullback.with_refs(own, weft.ad.GradValue()) if marks else pullback)(1.0)
    return own[...]


def twice(again):
    own = ref()
    weft.jit(lambda a, b: a.addupdate(1.0))(own, own if again else weft.new_ref(0.0))
    return own[...]


def both(closed):
    own = ref()

    def f(a):
        a[...] = (own if closed else a)[...] * 2

    weft.jit(f)(own)
    return own[...]


def transposed(before):
    own = ref()
    value = own[...] if before else None
    scale = (lambda x: x * value) if before else (lambda x: x * own[...])
    return weft.linear_transpose(scale, jnp.ones(3))(jnp.ones(3))[0]


def ended(outside):
    own = ref()
    if outside:
        weft.jit(lambda r: r[...])(own)
        return weft.freeze(own)
    return weft.jit(weft.freeze)(own)


OUTER = ref()
ARRAY = np.arange(3.0)

FIXES = [
    Fixed(
        "take what there is: ds(1, 2)",
        wrong=lambda: ref()[weft.ds(1, 3)],
        fixed=lambda fix: ref()[weft.ds(fix.data["start"], fix.data["size"])],
        value=np.array([1.0, 2.0]),
        error=ShapeError,
    ),
    Fixed(
        "weft.typeof(x)",
        lambda: weft.ref.AbstractRef(jnp.ones(3)),
        lambda fix: weft.ref.AbstractRef(weft.typeof(jnp.ones(3))),
        lambda found: str(found) == "Ref{f32[3]}",
        WeftTypeError,
    ),
    Fixed(
        "stride of at least 1",
        lambda: ref()[weft.ds(0, 2, 0)],
        lambda fix: ref()[weft.ds(0, 2, fix.data["stride"])],
        np.float32([0.0, 1.0]),
        WeftValueError,
    ),
    Fixed(
        "Python int",
        lambda: weft.jit(lambda n: ref()[weft.ds(0, n)])(1),
        lambda fix: weft.jit(lambda n: ref()[weft.ds(0, fix.data["size"])])(1),
        np.float32([0.0]),
        WeftTypeError,
    ),
    Fixed(
        "ref[...]",
        lambda: ref() + 1,
        lambda fix: ref()[...] + 1,
        np.float32([1.0, 2.0, 3.0]),
        WeftTypeError,
    ),
    Fixed(
        "astype",
        lambda: ref().swap(jnp.arange(3)),
        lambda fix: ref().swap(jnp.arange(3).astype(ref().dtype)),
        ARRAY,
        WeftValueError,
    ),
    Fixed(
        "of shape (3,)",
        lambda: ref().swap(jnp.ones(4)),
        lambda fix: ref().swap(jnp.ones(fix.data["shape"])),
        ARRAY,
    ),
    Fixed(
        "new reference of it", lambda: frozen(False), lambda fix: frozen(True), 0.0, WeftValueError
    ),
    Fixed(
        "argument only",
        lambda: lent(ref(), False),
        lambda fix: lent(ref(), True),
        np.float32([1.0, 2.0, 3.0]),
        WeftValueError,
    ),
    Fixed(
        "weft.freeze(ref)",
        lambda: made_inside(False),
        lambda fix: made_inside(True),
        2.0,
        LeakedTracerError,
    ),
    Fixed(
        "jit(grad(f))", lambda: plumbed(False), lambda fix: plumbed(True), 1.0, LeakedTracerError
    ),
    Fixed(
        "end it where it was made",
        lambda: ended(False),
        lambda fix: ended(True),
        ARRAY,
        WeftValueError,
    ),
    Fixed(
        "stop_gradient",
        lambda: weft.grad(lambda x: (OUTER.set(x, 0), x)[1])(1.0),
        lambda fix: weft.grad(lambda x: (OUTER.set(lax.stop_gradient(x), 0), x)[1])(1.0),
        1.0,
        WeftValueError,
    ),
    Fixed(
        "pass it once", lambda: twice(True), lambda fix: twice(False), np.float32([1.0, 2.0, 3.0])
    ),
    Fixed(
        "use the argument", lambda: both(True), lambda fix: both(False), np.float32([0.0, 2.0, 4.0])
    ),
    Fixed("close over it", lambda: carried(False), lambda fix: carried(True), 1.0, WeftTypeError),
    Fixed(
        "write it after the call",
        lambda: blocks(False),
        lambda fix: blocks(True),
        np.float32([1.0]),
        WeftNotImplementedError,
    ),
    Fixed(
        "weft.new_ref(x)",
        lambda: weft.ref.get(jnp.arange(3.0)),
        lambda fix: weft.ref.get(weft.new_ref(jnp.arange(3.0))),
        ARRAY,
        WeftTypeError,
    ),
    Fixed(
        "GradValue()", lambda: pulled([]), lambda fix: pulled([weft.ad.GradValue()]), 4.0, TreeError
    ),
    Fixed(
        "call f_vjp.with_refs(marks)(cotangent)",
        lambda: of_reference(False),
        lambda fix: of_reference(True),
        3.0,
        WeftValueError,
    ),
    Fixed(
        "x = ref[...]",
        lambda: transposed(False),
        lambda fix: transposed(True),
        ARRAY,
        WeftNotImplementedError,
    ),
    Fixed(
        "return its array",
        lambda: weft.jit(lambda x: weft.new_ref(x))(1.0),
        lambda fix: weft.jit(lambda x: weft.freeze(weft.new_ref(x)))(1.0),
        1.0,
        WeftValueError,
    ),
    Fixed("write it in the body", lambda: grown(False), lambda fix: grown(True), 3),
    Fixed(
        "call the jitted function",
        lambda: weft.jit(lambda r: r[...]).lower(ref()),
        lambda fix: weft.jit(lambda r: r[...])(ref()),
        ARRAY,
        WeftNotImplementedError,
    ),
]
