"""Arguments and errors under JAX's rules: what weft refuses otherwise, and what programs catch."""

from __future__ import annotations

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from weft import config, errors


def quarter(x: object) -> object:
    """A function whose backward rule answers in float32."""

    @jax.custom_vjp
    def f(x):
        return x / 4

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct.astype("float32") / 4,))
    return jax.grad(lambda x: f(x).astype("float32"))(x)


Pair = collections.namedtuple("Pair", "factor term")


def recurrence(result: object) -> list[float]:
    """Terms of x' = 2 x + 1 by a scan whose function returns another structure than it takes."""
    ones = Pair(2 * jnp.ones(4), jnp.ones(4))
    found = lax.associative_scan(
        lambda a, b: result([a.factor * b.factor, a.term * b.factor + b.term]), ones
    )
    assert type(found) is Pair
    return found.term.tolist()


KEYS = jax.random.split(jax.random.key(1), 2)
TAKEN = {
    "at[].set of a list": (
        lambda: jnp.zeros(3).at[:2].set([jnp.float32(1), 2]).tolist(),
        [1.0, 2.0, 0.0],
    ),
    "at[].subtract of a tuple": (lambda: jnp.ones(3).at[1:].subtract((1, 2)).tolist(), [1, 0, -1]),
    "at[].divide by a list": (lambda: jnp.ones(2).at[:].divide([2, 4]).tolist(), [0.5, 0.25]),
    "a namedtuple that a scan's function returns as a tuple": (
        lambda: recurrence(tuple),
        [1.0, 3.0, 7.0, 15.0],
    ),
    "a namedtuple that a scan's function returns nested": (
        lambda: recurrence(lambda x: [x[0], {"term": x[1]}]),
        [1.0, 3.0, 7.0, 15.0],
    ),
    "one number as the data of all ids": (
        lambda: jax.ops.segment_max(jnp.float32(3), jnp.array([0, 2]), 3).tolist(),
        [3.0, -np.inf, 3.0],
    ),
    "one number as the data of one id": (
        lambda: jax.ops.segment_sum(jnp.float32(3), jnp.array(1), 2).tolist(),
        [0.0, 3.0],
    ),
    "a complex transform of real numbers": (
        lambda: lax.fft(jnp.array([1.0, 2.0]), "FFT", (2,)).tolist(),
        [3.0, -1.0],
    ),
    "a transform to real numbers of real ones": (
        lambda: lax.fft(jnp.array([1, 2]), "IRFFT", (2,)).tolist(),
        [1.5, -0.5],
    ),
    "keys whose bits are zeros": (
        lambda: jax.random.key_data(
            jnp.zeros_like(jax.random.split(jax.random.key(1), 2))
        ).tolist(),
        [[0, 0], [0, 0]],
    ),
    "keys whose bits are ones": (
        lambda: jax.random.key_data(jnp.ones_like(jax.random.key(1))).tolist(),
        [1, 1],
    ),
    "quantiles beyond the ends": (
        lambda: jnp.quantile(jnp.arange(5.0), np.array([-1.0, 0.5, 2.0], "float32")).tolist(),
        [0.0, 2.0, 4.0],
    ),
    "lax.reshape to one integer": (lambda: lax.reshape(jnp.ones((2, 3)), 6).shape, (6,)),
    "fold_in of a float": (
        lambda: jax.random.key_data(jax.random.fold_in(jax.random.key(0), 1.5)).tolist(),
        [928981903, 3453687069],  # of 1: JAX 0.10.2
    ),
    "select by an int32": (
        lambda: lax.select(jnp.array([1, 0, 2]), jnp.ones(3), jnp.zeros(3)).tolist(),
        [1, 0, 1],
    ),
    "isdtype of object": (lambda: jnp.isdtype(object, "numeric"), False),
    "map(batch_size=0)": (
        lambda: lax.map(lambda x: x + 1, jnp.arange(2.0), batch_size=0).tolist(),
        [1.0, 2.0],
    ),
    "get(fill_value=) that is not read": (
        lambda: float(jnp.arange(3.0).at[5].get(mode="clip", fill_value=7)),
        2.0,
    ),
    "take(fill_value=) that is not read": (
        lambda: jnp.take(jnp.arange(3.0), jnp.array([5]), mode="clip", fill_value=3).tolist(),
        [2.0],
    ),
    "an empty mask": (lambda: jnp.ones((3, 4))[np.zeros(0, bool)].shape, (0, 4)),
    "copy=False of NumPy's": (
        lambda: jnp.asarray(np.ones(2, "float32"), copy=False).tolist(),
        [1.0, 1.0],
    ),
    "a cotangent of another width": (lambda: float(quarter(jnp.bfloat16(2.0))), 0.25),
}


@pytest.mark.parametrize("name", TAKEN)
def test_arguments_that_jax_takes(name: str) -> None:
    call, wanted = TAKEN[name]
    assert call() == wanted
    with config.override(argument_rule="weft"), pytest.raises(errors.WeftError):
        call()


def raising(x: object) -> object:
    """A callback that fails."""
    raise KeyError("from the callback")


@pytest.mark.parametrize("call", [jax.pure_callback, jax.experimental.io_callback])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_failures_of_callbacks_are_runtime_errors(call, wrap) -> None:
    struct = jax.ShapeDtypeStruct((), "float32")
    called = wrap(lambda x: call(raising, struct, x))
    with pytest.raises(jax.errors.JaxRuntimeError, match="from the callback") as caught:
        jax.block_until_ready(called(1.0))
    assert isinstance(caught.value.__cause__, KeyError)
    wrong = wrap(lambda x: call(lambda x: np.zeros(3, "float32"), struct, x))
    with pytest.raises(jax.errors.JaxRuntimeError):
        jax.block_until_ready(wrong(1.0))
    with config.override(argument_rule="weft"), pytest.raises(KeyError):
        jax.block_until_ready(wrap(lambda x: call(raising, struct, x))(1.0))


def test_too_much_memory_is_a_runtime_error() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        jnp.zeros((1 << 45,), "float32")


def escaped() -> object:
    """A traced value after its trace."""
    kept = []
    jax.jit(lambda x: kept.append(x) or x)(1.0)
    return kept[0] + 1


def reused() -> object:
    """A key that is used twice."""
    with jax.debug_key_reuse(True):
        key = jax.random.key(0)
        return jax.random.normal(key), jax.random.normal(key)


CAUGHT = {
    "TracerBoolConversionError": lambda: jax.jit(lambda x: 1 if x > 0 else 2)(1.0),
    "TracerIntegerConversionError": lambda: jax.jit(lambda x: [1, 2][x])(1),
    "TracerArrayConversionError": lambda: jax.jit(np.sin)(1.0),
    "ConcretizationTypeError": lambda: jax.jit(float)(1.0),
    "NonConcreteBooleanIndexError": lambda: jax.jit(lambda x: x[x > 0])(jnp.ones(2)),
    "UnexpectedTracerError": escaped,
    "KeyReuseError": reused,
    "JAXTypeError": lambda: jax.jit(float)(1.0),
    "JAXIndexError": lambda: jax.jit(lambda x: x[x > 0])(jnp.ones(2)),
}


@pytest.mark.parametrize("name", CAUGHT)
def test_errors_are_caught_by_the_names_of_jax(name: str) -> None:
    with pytest.raises(getattr(jax.errors, name)):
        CAUGHT[name]()


BUILTIN = {
    "fft over a list of axes": (ValueError, lambda: jnp.fft.fft(jnp.ones(3), axis=[0])),
    "an array of None": (ValueError, lambda: jnp.asarray(None)),
    "no common dtype": (
        jax.dtypes.TypePromotionError,
        lambda: jnp.add(jnp.ones(2, "float8_e5m2"), jnp.ones(2, "float8_e4m3fn")),
    ),
    "a dtype of another kind": (ValueError, lambda: jnp.finfo("int8")),
    "a sampler of real numbers": (
        ValueError,
        lambda: jax.random.normal(jax.random.key(0), (), int),
    ),
    "positions that are no integers": (ValueError, lambda: jnp.take(jnp.arange(3.0), 1.0)),
    "a function without its rule": (AttributeError, lambda: jax.custom_jvp(lambda x: x)(1.0)),
    "a step of 0": (ZeroDivisionError, lambda: jnp.arange(0, 1, 0)),
    "a wide integer": (OverflowError, lambda: jnp.asarray(2**31)),
    "a key that is used twice": (TypeError, reused),
}


@pytest.mark.parametrize("name", BUILTIN)
def test_errors_are_of_the_builtin_classes_that_jax_raises(name: str) -> None:
    kind, call = BUILTIN[name]
    with pytest.raises(kind):
        call()


def test_a_class_with_the_method_of_jax_stands_for_an_array() -> None:
    class Scaled:
        def __init__(self, by: float) -> None:
            self.by = by

        def __jax_array__(self) -> object:
            return self.by * jnp.arange(3.0)

    assert (jnp.ones(3) * Scaled(2.0)).tolist() == [0.0, 2.0, 4.0]
    assert jax.grad(lambda x: (x * Scaled(3.0)).sum())(1.0) == 9.0
    assert jnp.asarray(Scaled(1.0)).shape == (3,)


# ---- collectives ---------------------------------------------------------------------------------


def over_devices(f, in_specs, check_vma):
    mesh = jax.make_mesh((4,), ("i",), devices=jax.devices()[:4])
    return jax.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=jax.P(), check_vma=check_vma)


def test_copies_on_all_devices_may_be_summed():
    x = jnp.arange(3.0)
    for check in (True, False):
        total = over_devices(lambda x: jax.lax.psum(x, "i"), jax.P(), check)
        np.testing.assert_array_equal(total(x), 4 * np.arange(3.0))
        mean = over_devices(lambda x: jax.lax.pmean(x, "i"), jax.P(), check)
        np.testing.assert_array_equal(mean(x), np.arange(3.0))


def loss(w, x):
    return jnp.sum(jnp.sin(w) * x.sum())


STEPS = {
    "mean of gradients": lambda w, x: lax.pmean(jax.grad(loss)(w, x), "i"),
    "sum of gradients": lambda w, x: lax.psum(jax.grad(loss)(w, x), "i"),
    "gradient of mean": lambda w, x: jax.grad(lambda w: lax.pmean(loss(w, x), "i"))(w),
    "gradient of sum": lambda w, x: jax.grad(lambda w: lax.psum(loss(w, x), "i"))(w),
}
# The sums of the blocks are 1, 5, 9 and 13. What JAX 0.10.2 has as the factor of cos(w) with the
# proof of what varies and without, where cotangents of a sum are summed and P() takes the first.
FACTORS = {
    "mean of gradients": (28, 7),
    "sum of gradients": (4 * 28, 28),
    "gradient of mean": (7, 1),
    "gradient of sum": (28, 4),
}


@pytest.mark.parametrize("step", STEPS)
def test_gradients_of_what_devices_share(step):
    w, x = jnp.arange(3.0), jnp.arange(8.0)
    for check, factor in zip((True, False), FACTORS[step], strict=True):
        found = over_devices(STEPS[step], (jax.P(), jax.P("i")), check)(w, x)
        np.testing.assert_allclose(found, factor * np.cos(np.arange(3.0)), rtol=1e-5)


def test_pmap_of_a_gradient_is_that_of_each_device():
    w, x = jnp.arange(3.0), jnp.arange(8.0).reshape(4, 2)
    sums = np.array([1.0, 5.0, 9.0, 13.0])[:, None]
    for step in ("gradient of mean", "mean of gradients"):
        f = jax.pmap(STEPS[step], axis_name="i", in_axes=(None, 0))
        factor = sums if step == "gradient of mean" else np.full((4, 1), 7.0)
        np.testing.assert_allclose(f(w, x), factor * np.cos(np.arange(3.0)), rtol=1e-5)
        np.testing.assert_allclose(f(w, x), jax.vmap(STEPS[step], (None, 0), axis_name="i")(w, x))
    first = jax.pmap(lambda x: x, out_axes=None)(x)
    np.testing.assert_array_equal(first, [0.0, 1.0])


def test_devices_may_communicate_under_conditions_of_which_nothing_is_proved():
    def steps(x):
        def goes_on(c):
            return lax.psum(c.sum(), "i") < 100.0

        return lax.psum(lax.while_loop(goes_on, lambda c: c + lax.pmean(c, "i"), x), "i")

    assert float(over_devices(steps, jax.P("i"), False)(jnp.arange(4.0))[0]) == 192.0


# ---- settings and dtypes -------------------------------------------------------------------------


def test_settings_and_dtypes_are_read_as_in_jax():
    for how in ("off", "tracebackhide", "remove_frames", "quiet_remove_frames", "auto"):
        with config.override(jax_traceback_filtering=how):
            assert config.read("jax_traceback_filtering") == how
            assert config.host_settings().full_traceback == (how == "off")
    with pytest.raises(ValueError, match="traceback_filtering"):
        config.update("jax_traceback_filtering", "sideways")
    assert jnp.isdtype(None, "real floating") and float(jnp.finfo(jnp.float6_e2m3fn).max) == 7.5
    assert jax.dtypes.itemsize_bits(jnp.float6_e3m2fn) == 6
    assert jnp.issubdtype(jnp.float6_e3m2fn, jnp.floating)
    with pytest.raises(errors.DTypeError):
        jnp.ones(2).astype(jnp.float6_e2m3fn)
    with pytest.raises(errors.DTypeError):
        jax.dtypes.itemsize_bits(jax.random.key(0).dtype)
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(lambda n: lax.scan(lambda c, _: (c, c), 0.0, None, length=n))(3)
