"""`debug_key_reuse`: using a key twice is an error that names both uses, wherever the key went."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import config, lax, random
from weft.errors import KeyReuseError
from weft.sharding import PartitionSpec as P

pytestmark = pytest.mark.fast


def key():
    return random.key(0)


def split_carry(c, _):
    c, own = random.split(c)
    return c, random.normal(own)


def one_device():
    return weft.sharding.NamedSharding(weft.make_mesh((1,), ("i",)), P())


def in_shard_map(body):
    mesh = weft.make_mesh((2,), ("i",))
    return weft.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))


def checkpointed(k):
    return weft.grad(weft.checkpoint(lambda x: wnp.sin(x * random.normal(k))))(1.0)


# Functions of one key that use no key twice.
RIGHT = {
    "fold_in": lambda k: (random.fold_in(k, 1), random.fold_in(k, 2), random.normal(k)),
    "the bits": lambda k: (random.key_data(k), random.normal(k), random.key_data(k)),
    "both parts": lambda k: [random.normal(x) for x in random.split(k)],
    "other elements": lambda k: [random.normal(random.split(k, 3)[i]) for i in (0,)],
    "slices": lambda k: (lambda ks: (random.normal(ks[0]), random.normal(ks[1])))(
        random.split(k, 3)
    ),
    "vmap over others": lambda k: weft.vmap(lambda x: x * random.normal(k))(wnp.arange(3.0)),
    "vmap": lambda k: weft.vmap(random.normal)(random.split(k, 3)),
    "scan over keys": lambda k: lax.scan(lambda c, x: (c, random.normal(x)), 0, random.split(k, 3)),
    "scan that splits": lambda k: lax.scan(split_carry, k, None, length=3),
    "scan of one": lambda k: lax.scan(lambda c, _: (c, random.normal(c)), k, None, length=1),
    "one of two branches": lambda k: lax.cond(True, random.normal, random.uniform, k),
    "clone": lambda k: (random.normal(k), random.normal(random.clone(k))),
    "grad": lambda k: weft.grad(lambda x: (x * random.normal(k)) ** 2)(1.0),
    "checkpoint": checkpointed,
    "made anew": lambda k: (random.normal(k), random.normal(key())),
    "shard_map": lambda k: in_shard_map(lambda ks: random.normal(ks[0])[None])(random.split(k)),
    "bits without a type": lambda k: [random.normal(random.PRNGKey(1)) for _ in range(2)],
}

# What uses a key twice, and the names of both uses.
WRONG = {
    "two samplers": (lambda k: (random.normal(k), random.rayleigh(k, 2.0)), "normal", "rayleigh"),
    "two splits": (lambda k: (random.split(k), random.split(k)), "split", "split"),
    "a sampler and split": (lambda k: (random.normal(k), random.split(k)), "normal", "split"),
    "one element": (
        lambda k: (lambda ks: (random.normal(ks[1]), random.uniform(ks[1:][0])))(
            random.split(k, 3)
        ),
        "normal",
        "uniform",
    ),
    "an element of all": (
        lambda k: (lambda ks: (weft.vmap(random.normal)(ks), random.bits(ks[2])))(
            random.split(k, 3)
        ),
        "normal",
        "bits",
    ),
    "through a stack": (
        lambda k: (random.normal(wnp.stack([key(), k])[1]), random.uniform(k)),
        "normal",
        "uniform",
    ),
    "through a reshape": (
        lambda k: (random.normal(k), random.uniform(k.reshape(1, 1).T[0, 0])),
        "normal",
        "uniform",
    ),
    "through a flip": (
        lambda k: (random.normal(wnp.flip(wnp.stack([key(), k]))[0]), random.uniform(k)),
        "normal",
        "uniform",
    ),
    "through a constraint": (
        lambda k: (random.normal(weft.lax.with_sharding_constraint(k, one_device())),
                   random.uniform(k)),
        "normal",
        "uniform",
    ),
    "repeated": (
        lambda k: weft.vmap(random.normal)(wnp.broadcast_to(k, (2,))),
        "normal",
        "normal",
    ),
    "a carry that stays": (
        lambda k: lax.scan(lambda c, _: (c, random.normal(c)), k, None, length=3),
        "normal",
        "normal",
    ),
    "from outside of a scan": (
        lambda k: lax.scan(lambda c, _: (c, random.normal(k)), 0, None, length=3),
        "normal",
        "normal",
    ),
    "scanned and used": (
        lambda k: (lambda ks: (lax.scan(lambda c, x: (c, random.normal(x)), 0, ks),
                               random.uniform(ks[2])))(random.split(k, 3)),
        "normal",
        "uniform",
    ),
    "in a while_loop": (
        lambda k: lax.while_loop(lambda c: c < 3.0, lambda c: c + random.uniform(k), 0.0),
        "uniform",
        "uniform",
    ),
    "in a branch": (
        lambda k: (random.bits(k), lax.cond(False, random.laplace, random.cauchy, k)),
        "bits",
        "cauchy",
    ),
    "after a branch": (
        lambda k: (lax.cond(True, random.gumbel, lambda k: 0.0, k), random.bits(k)),
        "gumbel",
        "bits",
    ),
    "in a jitted function": (
        lambda k: (weft.jit(random.normal)(k), weft.jit(random.uniform)(k)),
        "normal",
        "uniform",
    ),
    "in a derivative": (
        lambda k: weft.grad(lambda x: x * random.normal(k) * random.uniform(k))(1.0),
        "normal",
        "uniform",
    ),
    "a clone twice": (
        lambda k: (lambda c: (random.normal(c), random.uniform(c)))(random.clone(k)),
        "normal",
        "uniform",
    ),
    "after fold_in": (
        lambda k: (lambda f: (random.normal(f), random.uniform(f)))(random.fold_in(k, 1)),
        "normal",
        "uniform",
    ),
}  # fmt: skip


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", RIGHT)
def test_keys_that_are_used_once(name, jitted):
    function = weft.jit(RIGHT[name]) if jitted else RIGHT[name]
    wanted = RIGHT[name](key())
    with config.debug_key_reuse():
        found = function(key())
    for a, b in zip(weft.tree.leaves(found), weft.tree.leaves(wanted), strict=True):
        if isinstance(b.dtype, np.dtype):
            np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", WRONG)
def test_keys_that_are_used_twice(name, jitted):
    wrong, first, second = WRONG[name]
    function = weft.jit(wrong) if jitted else wrong
    with config.debug_key_reuse(), pytest.raises(KeyReuseError) as caught:
        function(key())
    error = caught.value
    lines = inspect.getsourcelines(wrong)
    assert str(error).startswith(f"{second} uses a random key that {first} has used before")
    assert f"used by {first} at {__file__}:" in error.got
    assert f"by {second} at {__file__}:" in error.got
    used = [int(part.split(" ")[0]) for part in error.got.split(f"{__file__}:")[1:]]
    assert all(lines[1] <= number < lines[1] + len(lines[0]) for number in used)
    assert error.operation == second and error.fix.kind == "split"
    function(key())  # allowed where nobody asks


def test_a_key_is_followed_from_call_to_call():
    draw = weft.jit(lambda k: random.normal(k))
    k = key()
    with config.debug_key_reuse():
        draw(k)
        with pytest.raises(KeyReuseError, match="normal"):
            draw(k)
        with pytest.raises(KeyReuseError, match="uniform uses"):
            random.uniform(k)
        random.uniform(random.clone(k))
        for part in weft.jit(random.split)(key()):
            draw(part)


def test_the_fix_works():
    k = key()
    with config.debug_key_reuse():
        random.normal(k)
        with pytest.raises(KeyReuseError) as caught:
            random.normal(k)
        assert "weft.random.split(key)" in caught.value.fix.text
        first, second = random.split(key())
        random.normal(first), random.normal(second)
        random.normal(random.clone(first))


def test_a_key_made_inside_a_jitted_function():
    def twice():
        k = random.key(1)
        return random.normal(k), random.uniform(k)

    with config.debug_key_reuse(), pytest.raises(KeyReuseError, match="uniform uses"):
        weft.jit(twice)()


def test_inside_a_jitted_shard_map():
    def twice(ks):
        return random.normal(ks[0])[None] + random.uniform(ks[0])

    keys = random.split(key())
    with config.debug_key_reuse():
        with pytest.raises(KeyReuseError, match="uniform uses"):
            weft.jit(in_shard_map(twice))(keys)
        own = random.split(key())
        weft.jit(in_shard_map(lambda ks: random.normal(ks[0])[None]))(own)
        with pytest.raises(KeyReuseError, match="bits uses"):
            random.bits(own[1])


def test_nothing_is_recorded_where_nobody_asks():
    text = str(weft.make_jaxpr(lambda k: random.normal(random.clone(k)))(key()))
    assert "use_key" not in text and "clone_key" not in text
    with config.debug_key_reuse():
        text = str(weft.make_jaxpr(lambda k: random.normal(random.clone(k)))(key()))
    assert "use_key" in text and "clone_key" in text


def test_together_with_the_search_for_nans():
    with config.debug_key_reuse(), config.debug_nans():
        k = key()
        random.normal(k)
        with pytest.raises(KeyReuseError):
            random.normal(k)
        with pytest.raises(weft.errors.NonFiniteError):
            random.lognormal(key(), float("nan"))
