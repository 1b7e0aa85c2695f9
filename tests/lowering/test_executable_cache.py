"""What runs a call again: the keys of cached calls, what they must not meet, and when they go."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import errors
from weft.base.program_caches import BoundedCache
from weft.core.types import type_of
from weft.interpreters.staging import trace_to_jaxpr
from weft.kinds.arguments import Passed, Prepared
from weft.kinds.array_function import private_function
from weft.lowering.executable_cache import ExecutableCache
from weft.lowering.executables import compile_program, running


@private_function
def sum_and_product(x: Prepared, y: Prepared, *, times: Passed = 1):
    return (x + y) * times, x * y * times


@private_function
def quotient(x: Prepared, y: Prepared):
    return jnp.sin(x) / y


def program_of(function, *args):
    types = [type_of(x) for x in args]
    jaxpr, consts = trace_to_jaxpr(function, types, transformation="jit", name="function")
    assert not consts
    return compile_program(jaxpr, "function", None)


def test_a_bounded_cache_starts_anew_when_it_is_full():
    cache = BoundedCache(3)
    for i in range(4):
        cache[i] = i
    assert dict(cache) == {3: 3}


def test_equal_caches_are_all_emptied():
    caches = [BoundedCache(), BoundedCache(), ExecutableCache()]
    for cache in caches:
        cache["key"] = 1
    weft.clear_caches()
    assert not any(caches)


def test_forms_of_results():
    x, y = jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])
    program = program_of(lambda a, b: [a + b, a * b], x, y)
    buffers = [x._buffer, y._buffer]
    for form, wanted in ((0, [4, 6]), (1, [3, 8])):
        assert running(program, form)(buffers, ()).tolist() == wanted
    assert [out.tolist() for out in running(program, None)(buffers, ())] == [[4, 6], [3, 8]]
    assert type(running(program, tuple)(buffers, ())) is tuple
    named = running(program, lambda outs: dict(zip("ab", outs, strict=True)))(buffers, ())
    assert named["b"].tolist() == [3, 8]


def test_a_failure_names_the_array_that_is_gone():
    x, gone = jnp.ones(2), jnp.ones(2)
    program = program_of(lambda a, b: [a + b], x, gone)
    buffers = [x._buffer, gone._buffer]
    gone.delete()
    for run, args in ((running(program, 0), [x, gone]), (running(program, None), [x, gone])):
        with pytest.raises(errors.DeletedArrayError):
            run(buffers, args)
    with pytest.raises(errors.DeletedArrayError):  # a constant is no argument
        running(program, 0, consts=[gone])(buffers, [x])


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.astype("int32"),
        lambda x: jnp.concatenate([x, x]),
        lambda x: weft.device_put(x, weft.devices()[0]),  # committed, so its signature is another
    ],
)
def test_other_signatures_are_other_calls(change):
    cache, x = ExecutableCache(), jnp.ones(4)
    cache.remember((), [x], lambda buffers, args: "found")
    assert cache.run((), [x]) == "found" and cache.run((), [change(x)]) is None
    assert cache.run((1,), [x]) is None and cache.run((), [x, x]) is None


def test_other_settings_are_other_calls():
    cache, x = ExecutableCache(), jnp.ones(4)
    cache.remember((), [x], lambda buffers, args: "found")
    with weft.config.override(enable_x64=True):
        assert cache.run((), [x]) is None and cache.find((), [x]) is None
    assert cache.run((), [x]) == "found"


@pytest.mark.parametrize("value", [1.0, np.ones(4, np.float32), [1.0], None])
def test_only_arrays_are_found(value):
    cache = ExecutableCache()
    cache.remember((), [jnp.ones(4)], lambda buffers, args: "found")
    assert cache.run((), [value]) is None


def test_what_has_no_hash_is_not_remembered():
    cache, x = ExecutableCache(), jnp.ones(4)

    def run(buffers, args):
        return "ran"

    assert cache.remember(([],), [x], run) is run and not cache
    assert cache.find(([],), [x]) is None and cache.run(([],), [x]) is None


def test_a_tracer_goes_the_whole_way():
    x = jnp.array([1.0, 2.0])
    total, product = sum_and_product(x, x)
    assert len(sum_and_product.program.calls) >= 1
    jitted = weft.jit(lambda a: sum_and_product(a, x, times=3))(x)
    np.testing.assert_allclose(jitted[0], 3 * total)
    np.testing.assert_allclose(weft.jvp(quotient, (x, x), (x, x))[0], quotient(x, x))
    np.testing.assert_allclose(product, [1, 4])


def test_a_call_that_was_made_before_is_looked_at_under_debug_nans():
    x, zero = jnp.zeros(3), jnp.zeros(3)
    assert np.isnan(quotient(x, zero)).all()
    assert np.isnan(quotient(x, zero)).all()  # found
    with weft.config.override(debug_nans=True):
        for _ in range(2):
            with pytest.raises(errors.NonFiniteError):
                quotient(x, zero)
    assert np.isnan(quotient(x, zero)).all()


def test_a_deleted_operand_of_a_call_that_was_made_before():
    x, gone = jnp.ones(3), jnp.ones(3)
    quotient(x, gone)
    gone.delete()
    for _ in range(2):
        with pytest.raises(errors.DeletedArrayError):
            quotient(x, gone)
        with pytest.raises(errors.DeletedArrayError):
            gone[1]


def test_parameters_tell_calls_apart():
    x = jnp.array([1.0, 2.0])
    assert sum_and_product(x, x, times=2)[0].tolist() == [4, 8]
    assert sum_and_product(x, x, times=5)[0].tolist() == [10, 20]
    assert sum_and_product(x, x, times=2)[0].tolist() == [4, 8]
