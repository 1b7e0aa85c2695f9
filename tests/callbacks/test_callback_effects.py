"""Effects of callbacks: their order, their exceptions, threads, and what holds memory."""

from __future__ import annotations

import gc
import threading
import traceback
import weakref

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from at_once import together
from callback_cases import SCALAR, Boom, Log, Struct, fail
from ways import WAYS, WAYS_AND_TWICE
from weft import debug, errors
from weft.callbacks.primitives import effects_barrier, io_callback, pure_callback
from weft.core.check import check_jaxpr
from weft.core.effects import IO, ORDERED_DEBUG, ORDERED_IO, any_ordered
from weft.core.jaxpr import Jaxpr
from weft.interpreters.partial_eval import dce_jaxpr, partial_eval_jaxpr
from weft.lowering.executables import compile_program, run_program
from weft.lowering.module import lower_to_module
from weft.runtime.backends import host_callbacks

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]


# ---- exceptions ----------------------------------------------------------------------------------


def failing(x):
    return pure_callback(fail, SCALAR, x, vmap_method="sequential")


@weft.custom_jvp
def derived(x):
    return failing(x)


derived.defjvp(lambda primals, tangents: (derived(*primals), tangents[0]))

PATHS = {
    "eager": lambda: failing(1.0),
    "jit": lambda: weft.jit(failing)(1.0),
    "nested jit": lambda: weft.jit(weft.jit(failing))(1.0),
    "cond": lambda: weft.jit(lambda x: weft.lax.cond(x > 0, failing, lambda x: x, x))(1.0),
    "eager cond": lambda: weft.lax.cond(True, failing, lambda x: x, 1.0),
    "vmap": lambda: weft.vmap(failing)(wnp.ones(2)),
    "jit of vmap": lambda: weft.jit(weft.vmap(failing))(wnp.ones(2)),
    "grad": lambda: weft.value_and_grad(derived)(1.0),
    "jit of grad": lambda: weft.jit(weft.value_and_grad(derived))(1.0),
    "io": lambda: weft.jit(lambda x: io_callback(fail, None, x))(1.0),
    "debug": lambda: weft.jit(lambda x: debug.callback(fail, x))(1.0),
    "scan": lambda: weft.lax.scan(lambda c, _: (failing(c), None), 1.0, None, length=3),
    "while": lambda: weft.lax.while_loop(lambda c: c < 3.0, failing, 1.0),
    "compiled": lambda: weft.jit(failing).lower(wnp.float32(1.0)).compile()(wnp.float32(1.0)),
}


@pytest.mark.parametrize("path", PATHS)
def test_an_exception_leaves_the_call_with_its_traceback(path):
    with pytest.raises(Boom, match="here") as caught:
        PATHS[path]()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "fail"
    assert caught.value.__context__ is None


def test_the_exception_is_the_very_object():
    error = Boom("itself")

    def host(x):
        raise error

    with pytest.raises(Boom) as caught:
        weft.jit(lambda x: pure_callback(host, SCALAR, x))(1.0)
    assert caught.value is error


def test_its_own_causes_stay():
    def host(x):
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise Boom("outer") from error

    with pytest.raises(Boom) as caught:
        weft.jit(lambda x: pure_callback(host, SCALAR, x))(1.0)
    assert type(caught.value.__cause__) is KeyError


@pytest.mark.parametrize("kind", [KeyError, TypeError, AttributeError, KeyboardInterrupt])
def test_exceptions_that_python_catches_often(kind):
    calls = []

    def host(x):
        calls.append(1)
        raise kind("mine")

    f = weft.jit(lambda x: io_callback(host, None, x))
    for count in (1, 2):
        with pytest.raises(kind, match="mine"):
            f(1.0)
        assert len(calls) == count


def test_a_program_runs_again_after_a_failure():
    fails = [True, False]

    def host(x):
        if fails.pop(0):
            raise Boom
        return x

    f = weft.jit(lambda x: io_callback(host, SCALAR, x))
    with pytest.raises(Boom):
        f(1.0)
    assert float(f(2.0)) == 2.0


def test_nothing_after_a_failure_happens():
    seen = []

    def host(x):
        seen.append(float(x))
        if x == 2:
            raise Boom

    def step(carry, _):
        io_callback(host, None, carry, ordered=True)
        return carry + 1, None

    with pytest.raises(Boom):
        weft.jit(lambda x: weft.lax.scan(step, x, None, length=5))(0.0)
    assert seen == [0, 1, 2]


def test_exceptions_do_not_pile_up():
    f = weft.jit(lambda x: io_callback(fail, None, x))
    before = len(host_callbacks._raised)
    for _ in range(3):
        with pytest.raises(Boom):
            f(1.0)
    assert len(host_callbacks._raised) == before


# ---- order ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS_AND_TWICE)
def test_ordered_effects_through_jit_and_cond(way):
    log = Log()

    def branch(tag):
        def inner(x):
            log.note(tag, x)
            return x + 1

        return inner

    @weft.jit
    def shared(x):
        log.note("shared", x)
        return 2 * x

    def f(x):
        log.note("first", x)
        y = shared(shared(x))
        z = weft.lax.cond(x > 1, branch("true"), branch("false"), y)
        io_callback(lambda v: log.seen.append(("io", v.tolist())), None, z, ordered=True)
        log.note("last", x)
        return z

    for x, tag in ((2.0, "true"), (1.0, "false")):
        assert float(way(f)(x)) == 4 * x + 1
        assert log.take() == [
            ("first", x), ("shared", x), ("shared", 2 * x), (tag, 4 * x), ("io", 4 * x + 1),
            ("last", x),
        ]  # fmt: skip


def test_ordered_effects_that_no_data_joins():
    log = Log()

    @weft.jit
    def f(x):
        y = x
        for i in range(30):
            big = wnp.ones((60, 60)) * x
            for _ in range(i % 4):
                big = big @ big * 1e-2
            log.note(i, big[0, 0] * 0 + i)
            y = y + big.sum()
        return y

    f(1.0)
    assert [tag for tag, _ in log.take()] == list(range(30))


def test_calls_keep_their_order():
    log = Log()
    f = weft.jit(lambda x: (log.note("f", x, ordered=False), x + 1)[1])
    g = weft.jit(lambda x: log.note("g", x, ordered=False))
    x = 0.0
    for _ in range(5):
        x = f(x)
        g(x)
        log.note("eager", x)
    expected = [(t, v) for i in range(5) for t, v in (("f", i), ("g", i + 1), ("eager", i + 1))]
    assert log.take() == expected


def test_a_big_program_before_does_not_change_the_order():
    log = Log()
    big = weft.jit(lambda a: (a @ a @ a @ a @ a).sum())
    f = weft.jit(lambda x: log.note("f", x * 0))
    a = wnp.ones((500, 500)) * 1e-3
    for _ in range(3):
        f(big(a))
        log.seen.append("after")
    assert log.take() == [("f", 0.0), "after"] * 3


def test_every_element_under_vmap_in_order():
    log = Log()

    def f(x, y):
        log.note("x", x)
        log.note("y", y)  # not mapped: once
        return io_callback(lambda a, b: a + b, SCALAR, x, y)

    for way in (lambda f: f, weft.jit):
        out = way(weft.vmap(f, in_axes=(0, None)))(wnp.arange(3.0), 10.0)
        np.testing.assert_array_equal(out, [10, 11, 12])
        assert log.take() == [("x", 0), ("x", 1), ("x", 2), ("y", 10)]


def test_a_mapped_predicate_runs_the_branch_taken():
    log = Log()

    def branch(tag, factor):
        def inner(x, y):
            log.note(tag, x)
            return factor * x + y

        return inner

    def f(x, y):
        return weft.lax.cond(x > 1, branch("big", 2), branch("small", 3), x, y)

    for way in (lambda f: f, weft.jit):
        out = way(weft.vmap(f, in_axes=(0, None)))(wnp.arange(4.0), 100.0)
        np.testing.assert_array_equal(out, [100, 103, 104, 106])
        assert log.take() == [("small", 0), ("small", 1), ("big", 2), ("big", 3)]

    def three(i, x):
        return weft.lax.switch(i, [branch(str(k), k) for k in range(3)], x, 0.0)

    out = weft.vmap(three)(wnp.array([2, 0, 5]), wnp.ones(3))
    np.testing.assert_array_equal(out, [2, 0, 2])
    assert log.take() == [("2", 1), ("0", 1), ("2", 1)]


def test_an_effectful_branch_under_vmap_has_derivatives():
    def f(x):
        def big(x):
            debug.callback(lambda v: None, x)
            return x * x

        return weft.lax.cond(x > 1, big, lambda x: 3 * x, x)

    x = wnp.arange(4.0)
    np.testing.assert_allclose(weft.vmap(weft.grad(f))(x), [3, 3, 4, 6])
    np.testing.assert_allclose(weft.grad(lambda x: weft.vmap(f)(x).sum())(x), [3, 3, 4, 6])


def test_equations_with_effects_are_never_dropped():
    def f(x):
        io_callback(lambda v: None, SCALAR, x)
        pure_callback(np.sin, SCALAR, x)
        return x * 2

    jaxpr = weft.make_jaxpr(f)(1.0).jaxpr
    assert jaxpr.effects == {IO}
    for used in ((True,), (False,)):
        kept = [eqn.primitive.name for eqn in dce_jaxpr(jaxpr, used)[0].eqns]
        assert "io_callback" in kept and "pure_callback" not in kept
    calls = []

    def inner(x):
        io_callback(lambda v: calls.append(1), None, x)
        return 2 * x

    def outer(x):
        weft.jit(inner)(x)
        weft.lax.cond(x > 0, inner, lambda x: x, x)
        return x

    weft.jit(outer)(1.0)
    assert len(calls) == 2


def test_partial_evaluation_keeps_the_order():
    log = Log()

    def f(x, y):
        log.note("y", y)
        log.note("x", x)
        z = weft.jit(lambda x, y: (log.note("inner", x), x * y)[1])(x, y)
        return x + 1, z

    jaxpr = weft.make_jaxpr(f)(1.0, 2.0).jaxpr
    split = partial_eval_jaxpr(jaxpr, (False, True))
    assert not any_ordered(split.known.effects)
    assert [e.primitive.name for e in split.unknown.eqns].count("debug_callback") == 2
    split = partial_eval_jaxpr(jaxpr, (True, False))
    known = [e.primitive.name for e in split.known.eqns if e.effects]
    unknown = [e.primitive.name for e in split.unknown.eqns if e.effects]
    assert (known, unknown) == (["debug_callback"], ["debug_callback", "jit"])


def test_effects_are_data():
    def effects(f):
        return weft.make_jaxpr(f)(1.0).jaxpr.effects

    assert effects(lambda x: io_callback(np.sin, SCALAR, x, ordered=True)) == {ORDERED_IO}
    assert effects(weft.jit(lambda x: debug.callback(fail, x, ordered=True))) == {ORDERED_DEBUG}
    assert not effects(lambda x: pure_callback(np.sin, SCALAR, x))
    assert (str(IO), str(ORDERED_IO)) == ("io", "ordered io")


def test_a_checker_sees_undeclared_effects():
    jaxpr = weft.make_jaxpr(lambda x: io_callback(np.sin, SCALAR, x))(1.0).jaxpr
    check_jaxpr(jaxpr)
    silent = Jaxpr(jaxpr.inputs, jaxpr.eqns, jaxpr.outputs, effects=frozenset())
    with pytest.raises(errors.JaxprError, match="effects"):
        check_jaxpr(silent)


# ---- callbacks that compute, threads, memory -----------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_callback_may_use_weft(way):
    inner = weft.jit(lambda a, x: (a @ a).sum() + x)
    a = wnp.ones((300, 300)) * 1e-2

    def host(v):
        assert weft.grad(lambda x: x * x)(3.0) == 6.0
        return wnp.sin(inner(a, wnp.asarray(v))) * 0 + v + 1

    def f(a, x):
        for _ in range(4):
            b = a @ a * 1e-2
            x = x + io_callback(host, SCALAR, x + b[0, 0] * 0)
        return x

    assert float(way(f)(a, 1.0)) == 31.0


def test_a_callback_may_call_a_program_with_callbacks():
    inner = weft.jit(lambda x: io_callback(lambda v: v + 1, SCALAR, x))
    f = weft.jit(lambda x: io_callback(lambda v: inner(v), SCALAR, x))
    assert float(f(1.0)) == 2.0


def test_a_transformation_around_the_call_is_not_the_callbacks():
    def host(v):
        return np.float32(weft.jit(lambda x: x * 2)(float(v)))

    def f(x):
        return x * weft.jit(lambda y: pure_callback(host, SCALAR, y))(3.0)

    assert float(weft.grad(f)(1.0)) == 6.0 and weft.vmap(f)(wnp.ones(2)).tolist() == [6.0, 6.0]


def test_settings_reach_the_callback():
    def host(v):
        return np.asarray(wnp.asarray(np.ones(2)))

    with weft.enable_x64():
        f = weft.jit(lambda x: io_callback(host, Struct((2,), np.float64), x))
        assert f(1.0).dtype == np.float64


def test_many_threads():
    inner = weft.jit(lambda a, x: (a @ a).sum() * 0 + x)
    a = wnp.ones((200, 200))
    f = weft.jit(lambda x: io_callback(lambda v: inner(a, v) + 1, SCALAR, x))
    f(0.0)
    found = together(lambda i: [float(f(float(i + k))) for k in range(3)], 40)
    assert found == [[i + 1.0, i + 2.0, i + 3.0] for i in range(40)]


def test_exceptions_of_threads_do_not_mix():
    def host(v):
        raise Boom(float(v))

    f = weft.jit(lambda x: io_callback(host, None, x))

    def work(i):
        with pytest.raises(Boom) as caught:
            f(float(i))
        return caught.value.args[0]

    assert together(work, 12) == [float(i) for i in range(12)]


def test_nesting_that_could_stop_for_good_is_an_error():
    inside, threads = host_callbacks._inside, 4
    inside.depth = 1
    try:
        with host_callbacks.running(threads), host_callbacks.running(threads):
            with host_callbacks.running(threads), host_callbacks.running(threads):
                with pytest.raises(errors.WeftError, match="deeper") as caught:
                    with host_callbacks.running(threads):
                        pass
                with host_callbacks.running(caught.value.fix.data["threads"] * 2):
                    pass
    finally:
        inside.depth = 0


def test_the_barrier_waits_for_other_threads():
    entered, go_on, seen = threading.Event(), threading.Event(), []

    def host(v):
        entered.set()
        go_on.wait(30)
        seen.append("effect")
        effects_barrier()  # returns at once, inside

    thread = threading.Thread(target=lambda: weft.jit(lambda x: io_callback(host, None, x))(1.0))
    thread.start()
    assert entered.wait(30)
    threading.Timer(0.05, go_on.set).start()
    effects_barrier()
    assert seen == ["effect"]
    thread.join()
    effects_barrier()


def test_donated_arguments():
    seen = []

    @weft.jit
    def plain(x):
        return x + 1

    def f(x):
        io_callback(lambda v: seen.append(v.copy()), None, x)
        return x + 1

    donating = weft.jit(f, donate_argnums=0)
    x = plain(wnp.arange(4.0))
    np.testing.assert_array_equal(donating(x), [2, 3, 4, 5])
    np.testing.assert_array_equal(seen[0], [1, 2, 3, 4])
    assert x.is_deleted()
    with pytest.raises(errors.DeletedArrayError, match="donated"):
        donating(x)
    assert len(seen) == 1


def test_a_failure_with_donated_arguments_is_the_callbacks_own():
    def f(x):
        io_callback(fail, None, x)
        return x + 1

    x = wnp.arange(4.0)
    with pytest.raises(Boom):
        weft.jit(f, donate_argnums=0)(x)
    if x.is_deleted():
        with pytest.raises(errors.DeletedArrayError, match="donated"):
            x + 1


def test_a_program_and_its_callback_are_freed_together():
    class Model:
        def __init__(self):
            self.log = []
            jaxpr = weft.make_jaxpr(lambda x: debug.callback(self.record, x))(1.0).jaxpr
            self.program = compile_program(jaxpr, "step", None)

        def record(self, v):
            self.log.append(float(v))

    model = Model()
    run_program(model.program, [wnp.float32(1.0)])
    assert model.log == [1.0]
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


def test_programs_without_callbacks_do_not_wait():
    f = weft.jit(lambda a: a @ a)
    g = weft.jit(lambda a: (debug.callback(lambda: None), a @ a)[1])
    a = wnp.ones((4, 4))
    f(a), g(a)
    (plain,), (watched,) = f._calls.values(), g._calls.values()
    assert plain.program.execute == plain.program.executable.execute
    assert watched.program.execute is not watched.program.executable.execute


def test_lowering_shares_functions_and_counts_callbacks():
    @weft.jit
    def shared(x):
        io_callback(lambda v: None, None, x, ordered=True)
        return x + 1

    jaxpr = weft.make_jaxpr(lambda x: shared(shared(x)))(1.0).jaxpr
    module = lower_to_module(jaxpr, "f", "cpu")
    assert len(module.callbacks) == 1
    text = module.module.text()
    assert text.count("xla_ffi_python_cpu_callback") == 1
    assert "call @shared(%arg0, %c) : (tensor<f32>, tensor<i32>)" in text
