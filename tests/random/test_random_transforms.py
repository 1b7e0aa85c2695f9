"""Every sampler of weft.random under every transformation: one row each, properties over all rows.

What one key draws with one set of parameters, eagerly, is what it draws mapped, in loops and
branches, and on several devices.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from generators import IMPLEMENTATIONS
from weft import lax, random
from weft.errors import DTypeError, KeyReuseError, ShapeError, WeftError, WeftTypeError
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P

# Name -> the parameters that may be mapped over, by keyword, and what else it is called with.
ROWS = {
    "ball": ({"p": 1.5}, {"d": 2}),
    "bernoulli": ({"p": 0.4}, {}),
    "beta": ({"a": 0.8, "b": 2.0}, {}),
    "binomial": ({"n": 30.0, "p": 0.4}, {}),
    "bits": ({}, {}),
    "categorical": ({"logits": [0.1, 1.0, -0.5]}, {}),
    "cauchy": ({}, {}),
    "chisquare": ({"df": 3.0}, {}),
    "choice": ({"a": [1.0, 2.0, 4.0], "p": [0.5, 0.2, 0.3]}, {}),
    "dirichlet": ({"alpha": [0.7, 2.0]}, {}),
    "double_sided_maxwell": ({"loc": 1.0, "scale": 2.0}, {}),
    "exponential": ({}, {}),
    "f": ({"dfnum": 3.0, "dfden": 5.0}, {}),
    "gamma": ({"a": 0.8}, {}),
    "generalized_normal": ({"p": 1.5}, {}),
    "geometric": ({"p": 0.3}, {}),
    "gumbel": ({}, {"mode": "high"}),
    "laplace": ({}, {}),
    "loggamma": ({"a": 0.8}, {}),
    "logistic": ({}, {}),
    "lognormal": ({"sigma": 0.7}, {}),
    "maxwell": ({}, {}),
    "multinomial": ({"n": 15.0, "p": [0.2, 0.3, 0.5]}, {"shape": (3,)}),
    "multivariate_normal": ({"mean": [1.0, -1.0], "cov": [[2.0, 0.3], [0.3, 1.0]]}, {}),
    "normal": ({}, {}),
    "orthogonal": ({}, {"n": 2, "shape": ()}),
    "pareto": ({"b": 2.0}, {}),
    "permutation": ({"x": [1.0, 2.0, 4.0, 8.0]}, {}),
    "poisson": ({"lam": 8.0}, {}),
    "rademacher": ({}, {}),
    "randint": ({"minval": 3, "maxval": 40}, {}),
    "rayleigh": ({"scale": 2.0}, {}),
    "t": ({"df": 3.5}, {}),
    "triangular": ({"left": -1.0, "mode": 0.4, "right": 2.0}, {}),
    "truncated_normal": ({"lower": -0.5, "upper": 2.0}, {}),
    "uniform": ({"minval": 0.5, "maxval": 2.0}, {}),
    "wald": ({"mean": 0.7}, {}),
    "weibull_min": ({"scale": 2.0, "concentration": 1.5}, {}),
}
NO_SAMPLERS = {
    "PRNGKey", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "random_gamma_p",
    "split", "wrap_key_data",
}  # fmt: skip
# The result of these is no number that may be differentiated, or does not depend on parameters.
DIFFERENTIABLE = [
    name
    for name, (parameters, _) in ROWS.items()
    if parameters and name not in {"bernoulli", "categorical", "geometric", "poisson", "randint"}
]
COUNT = 4


def takes(name, argument):
    return argument in inspect.signature(getattr(random, name)).parameters


def sampler(name):
    """The function of a key and of the row's parameters."""
    parameters, others = ROWS[name]
    if takes(name, "shape"):
        others = {"shape": (2,), **others}

    def draw(key, *values):
        return getattr(random, name)(key, **dict(zip(parameters, values, strict=True)), **others)

    return draw


def columns(name):
    """The row's parameters, COUNT of each along a first dimension."""
    made = []
    for value in ROWS[name][0].values():
        if isinstance(value, int):
            column = np.int32(value) + np.arange(COUNT, dtype=np.int32)
        else:
            base = np.asarray(value, np.float32)
            column = np.stack([base * np.float32(1 + 0.1 * i) for i in range(COUNT)])
        made.append(wnp.array(column))
    return made


def row(name, impl="threefry2x32"):
    return sampler(name), random.split(random.key(11, impl=impl), COUNT), columns(name)


def same(got, wanted):
    got, wanted = np.asarray(got), np.stack([np.asarray(x) for x in wanted])
    assert got.dtype == wanted.dtype
    if got.dtype.kind == "f":
        # Programs that are compiled together round sums of products once or twice.
        np.testing.assert_allclose(got, wanted, rtol=3e-6, atol=3e-6)
    else:
        np.testing.assert_array_equal(got, wanted)


def test_every_sampler_has_a_row():
    assert set(ROWS) == set(random.__all__) - NO_SAMPLERS


# ---- keys and parameters in transformations ----------------------------------------------------


@pytest.mark.parametrize("name", ROWS)
def test_mapped_draws_are_those_of_each_key_and_parameter(name):
    draw, keys, values = row(name, IMPLEMENTATIONS[len(name) % 2])

    @weft.jit
    def program(keys, *values):
        own = [value[0] for value in values]
        return (
            weft.vmap(draw)(keys, *values),
            weft.vmap(lambda key: draw(key, *own))(keys),
            lax.map(lambda xs: draw(*xs), (keys, *values)),
        )

    both, by_key, looped = program(keys, *values)
    each = [draw(keys[i], *[value[i] for value in values]) for i in range(COUNT)]
    same(both, each)
    same(looped, each)
    same(by_key, [draw(key, *[value[0] for value in values]) for key in keys])


@pytest.mark.parametrize("name", ROWS)
def test_draws_of_a_carried_key_and_in_branches(name):
    draw, keys, values = row(name, "rbg" if len(name) % 2 else "threefry2x32")
    own = [value[1] for value in values]

    @weft.jit
    def program(key, flag, *values):
        def step(key, xs):
            key, now = random.split(key)
            return key, draw(now, *xs)

        def advance(state):
            key, i, last = state
            key, now = random.split(key)
            return key, i + 1, draw(now, *own)

        scanned = lax.scan(step, key, values, length=COUNT)[1]
        nothing = wnp.zeros_like(scanned[0])
        last = lax.while_loop(lambda state: state[1] < 2, advance, (key, 0, nothing))[2]
        chosen = lax.cond(flag, lambda k: draw(k, *own), lambda k: nothing, key)
        return scanned, last, chosen

    scanned, last, chosen = program(keys[0], True, *values)
    key, wanted = keys[0], []
    for i in range(COUNT):
        key, now = random.split(key)
        wanted.append(draw(now, *[value[i] for value in values]))
        if i == 1:
            same(last, draw(now, *own))
    same(scanned, wanted)
    same(chosen, draw(keys[0], *own))


@pytest.mark.parametrize("name", ROWS)
def test_each_device_draws_what_its_key_draws(name):
    draw, keys, values = row(name, "threefry2x32" if len(name) % 2 else "rbg")
    mesh = weft.make_mesh((COUNT,), ("i",))

    def body(keys, whole, *blocks):
        own = [block[0] for block in blocks]
        return draw(keys[0], *own)[None], draw(whole, *own)[None]

    mapped = weft.shard_map(
        body, mesh=mesh, in_specs=(P("i"), P(), *[P("i")] * len(values)), out_specs=(P("i"), P("i"))
    )
    by_key, by_parameter = weft.jit(mapped)(keys, keys[0], *values)
    own = [[value[i] for value in values] for i in range(COUNT)]
    same(by_key, [draw(keys[i], *own[i]) for i in range(COUNT)])
    same(by_parameter, [draw(keys[0], *own[i]) for i in range(COUNT)])


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_forward_and_reverse_mode_agree_in_the_parameters(name):
    draw, keys, values = row(name)
    own = tuple(value[1] for value in values)

    @weft.jit
    def program(key, *own):
        function = lambda *own: draw(key, *own)  # noqa: E731
        directions = tuple(wnp.ones_like(x) for x in own)
        value, tangent = weft.jvp(function, own, directions)
        again, linear = weft.linearize(function, *own)
        weights = wnp.cos(wnp.arange(float(value.size))).reshape(value.shape)
        gradients = weft.grad(lambda *own: (function(*own) * weights).sum(), range(len(own)))(*own)
        forward, reverse = (tangent * weights).sum(), sum(x.sum() for x in gradients)
        return value, tangent, again, linear(*directions), forward, reverse

    value, tangent, again, linear, forward, reverse = program(keys[1], *own)
    same(value, draw(keys[1], *own))
    same(again, value)
    assert np.isfinite(tangent).all()
    np.testing.assert_allclose(linear, tangent, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(forward, reverse, rtol=1e-4, atol=1e-5)


# ---- shapes, dtypes, wrong arguments -----------------------------------------------------------


def own_dimensions(name):
    """What follows the shape that is asked for."""
    return {"ball": (2,), "dirichlet": (2,), "multivariate_normal": (2,), "orthogonal": (2, 2)}.get(
        name, ()
    )


SHAPED = [name for name in ROWS if takes(name, "shape") and name != "multinomial"]
INTEGERS = {"bits", "geometric", "poisson", "rademacher", "randint"}
REALS = [name for name in SHAPED if takes(name, "dtype") and name not in INTEGERS]


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", REALS)
def test_the_dtype_is_the_one_asked_for(name, x64):
    parameters, others = ROWS[name]
    with weft.config.enable_x64(x64):
        given = {key: wnp.array(value, np.float32) for key, value in parameters.items()}
        for dtype in ("float16", "bfloat16", "float32", "float64", None):
            for shape in ((), (2, 0, 3), [2], np.int32(3))[:: 1 if dtype is None else 3]:
                wanted = (*np.empty(shape).shape, *own_dimensions(name))
                made = weft.eval_shape(
                    lambda k, s=shape, d=dtype: getattr(random, name)(
                        k, **given, **{**others, "shape": s, "dtype": d}
                    ),
                    random.key(0),
                )
                default = "float64" if x64 and name != "multivariate_normal" else "float32"
                assert (made.shape, made.dtype) == (wanted, weft.dtypes.parse(dtype or default))


@pytest.mark.parametrize("name", ROWS)
def test_wrong_arguments_are_named(name):
    parameters, others = ROWS[name]
    function = getattr(random, name)
    given = {
        key: value if isinstance(value, (int, float)) else wnp.array(value, np.float32)
        for key, value in parameters.items()
    }
    given |= {"shape": (2,)} if takes(name, "shape") else {}
    given |= others
    key = random.key(0)

    def assert_refused(kind, *keys, **changes):
        with pytest.raises(kind) as caught:
            function(*keys, **{**given, **changes})
        assert caught.value.operation == name
        assert name in str(caught.value)

    assert_refused(WeftTypeError, 0)
    assert_refused(ShapeError, random.split(key))
    assert_refused(DTypeError, wnp.zeros(2))
    for parameter in parameters:
        assert_refused(WeftError, key, **{parameter: key})
        assert_refused(WeftError, key, **{parameter: "text"})
    if takes(name, "shape"):
        assert_refused(ShapeError, key, shape=(-1,))
        assert_refused(WeftTypeError, key, shape="ab")
    if takes(name, "dtype"):
        assert_refused(DTypeError, key, dtype="nonsense")
        assert_refused(DTypeError, key, dtype="bool")


@pytest.mark.parametrize("name", ROWS)
def test_a_key_is_used_once(name):
    draw, keys, values = row(name)
    own = [value[0] for value in values]
    twice = weft.jit(lambda key: (draw(key, *own), draw(key, *own)))
    with weft.config.debug_key_reuse(), pytest.raises(KeyReuseError, match=name):
        twice(keys[0])


# ---- the sharding of what is drawn --------------------------------------------------------------

DRAWN = {
    "normal": ((8, 2),), "uniform": ((8, 2),), "bits": ((8, 2),), "exponential": ((8, 2),),
    "bernoulli": (0.5, (8, 2)), "randint": ((8, 2), 0, 9), "truncated_normal": (-1, 1, (8, 2)),
    "gamma": (2.0, (8, 2)), "poisson": (3.0, (8, 2)), "permutation": (8,),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_an_out_sharding_moves_and_changes_nothing(name):
    function, key = getattr(random, name), random.key(3)
    wanted = np.asarray(function(key, *DRAWN[name], out_sharding=None))
    split = NamedSharding(weft.make_mesh((4,), ("i",)), P("i"))
    for run in (lambda f: f, weft.jit):
        found = run(lambda key: function(key, *DRAWN[name], out_sharding=split))(key)
        assert found.sharding == split
        np.testing.assert_array_equal(found, wanted)


def test_bounds_of_one_element_give_their_dimensions():
    key, low, high = random.key(1), wnp.full((1,), 2.0), wnp.full((1, 1), 4.0)
    wanted = random.uniform(key, (), minval=2.0, maxval=4.0)
    for bounds, shape in (((low, 4.0), (1,)), ((2.0, high), (1, 1)), ((low, high), (1, 1))):
        found = random.uniform(key, (), None, *bounds)
        assert found.shape == shape and found.item() == wanted.item()
