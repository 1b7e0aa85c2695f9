"""`progress=` of loops: what is told, how often, and that it changes no result."""

from __future__ import annotations

import gc
import sys
import types

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from compilations import counted_compilations
from weft import lax
from weft.control_flow import progress
from weft.sharding import NamedSharding, P

MESH = weft.make_mesh((4, 2), ("i", "j"))


class Told(list):
    """A function for `progress=` that keeps what it is called with."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        return list(self) == other if type(other) is list else self is other

    def __call__(self, done, total):
        self.append((done, total))


def steps(told):
    return [done for done, _ in told]


def body(carry, x):
    return jnp.sin(carry) + x, carry * x


def by_scan(told, reverse=False):
    return lambda x: lax.scan(body, x, jnp.linspace(0.0, 1.0, 12), reverse=reverse, progress=told)


def by_fori(told):
    return lambda x: lax.fori_loop(3, 15, lambda i, v: jnp.sin(v) + i, x, progress=told)


def by_traced_fori(told):
    def f(x, n=12):
        return lax.fori_loop(3, 3 + n, lambda i, v: jnp.sin(v) + i, x, progress=told)

    return lambda x: weft.jit(f)(x, 12)


LOOPS = {"scan": by_scan, "fori_loop": by_fori, "a traced bound": by_traced_fori}


@pytest.mark.parametrize("make", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("how", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_steps_are_told_and_results_are_equal(make, how):
    told = Told()
    x = jnp.float32(0.3)
    with_it, without = how(make(told))(x), how(make(None))(x)
    assert told == [(n, 12) for n in range(1, 13)]
    for a, b in zip(weft.tree.leaves(with_it), weft.tree.leaves(without), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_a_loop_from_the_end_counts_up():
    told = Told()
    found, wanted = by_scan(told, True)(0.3), by_scan(None, True)(0.3)
    assert steps(told) == list(range(1, 13))
    np.testing.assert_array_equal(found[1], wanted[1])


@pytest.mark.parametrize("length, most", [(99, 99), (1000, 101), (12_345, 101)])
def test_about_a_hundred_updates(length, most):
    told = Told()
    lax.fori_loop(0, length, lambda i, v: v + i, 0, progress=told)
    assert steps(told) == sorted(set(steps(told))) and steps(told)[0] == 1
    assert told[-1] == (length, length) and 0.8 * most <= len(told) <= most + 1


def test_a_loop_of_unknown_length():
    told = Told()
    found = lax.while_loop(lambda v: v < 5000, lambda v: v + 1, 0, progress=told)
    assert found == 5000 and told[-1] == (5000, 5000)
    assert all(total is None for _, total in told[:-1])
    assert steps(told)[:20] == [*range(1, 17), 18, 20, 22, 24] and len(told) < 100


def test_derivatives_tell_of_the_forward_pass():
    told = Told()
    f = by_fori(told)
    for derive in (weft.grad, lambda f: weft.jit(weft.grad(f)), lambda f: weft.grad(weft.jit(f))):
        told.clear()
        assert derive(f)(0.3) == derive(by_fori(None))(0.3)
        assert steps(told) == list(range(1, 13))
    told.clear()
    weft.jvp(f, (0.3,), (1.0,))
    assert steps(told) == list(range(1, 13))


def test_vmap_tells_of_one_loop():
    told = Told()
    xs = jnp.linspace(0.0, 1.0, 5)
    np.testing.assert_array_equal(weft.vmap(by_fori(told))(xs), weft.vmap(by_fori(None))(xs))
    assert steps(told) == list(range(1, 13))


def test_vmap_of_a_condition():
    told = Told()

    def f(x, told=None):
        return lax.while_loop(lambda v: v < 20, lambda v: v + 1, x, progress=told)

    xs = jnp.array([0.0, 8.0, 16.0])
    np.testing.assert_array_equal(weft.vmap(lambda x: f(x, told))(xs), [20.0, 20.0, 20.0])
    assert {(20, 20), (12, 12), (4, 4)} <= set(told)


@pytest.mark.parametrize("how", [lambda f: f, weft.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("more", [{}, {"auto_pbroadcast": False}, {"check_vma": False}], ids=str)
def test_shard_map_tells_once(how, more):
    told = Told()

    def f(told):
        def loop(x):
            return lax.fori_loop(0, 12, lambda _, v: jnp.sin(v), x, progress=told)

        return how(weft.shard_map(loop, mesh=MESH, in_specs=P("i"), out_specs=P("i"), **more))

    x = jnp.linspace(0.0, 1.0, 8)
    np.testing.assert_array_equal(f(told)(x), f(None)(x))
    assert steps(told) == list(range(1, 13))


def test_devices_whose_loops_differ():
    """Told is the loop of the first device."""
    told = Told()

    def f(x):
        return lax.while_loop(lambda v: v[0] < 9, lambda v: v + 1, x, progress=told)

    mapped = weft.jit(weft.shard_map(f, mesh=MESH, in_specs=P("i"), out_specs=P("i")))
    np.testing.assert_array_equal(mapped(jnp.arange(4.0) + 4), [9.0] * 4)
    assert told == [*((n, None) for n in range(1, 6)), (5, 5)]


def test_a_program_over_several_devices_tells_once():
    told = Told()
    x = weft.device_put(jnp.linspace(0.0, 1.0, 8), NamedSharding(MESH, P(("i", "j"))))
    weft.jit(by_fori(told))(x)
    assert steps(told) == list(range(1, 13))


def test_step_by_step_in_python():
    told = Told()
    with weft.disable_jit():
        for make in (by_scan, by_fori):
            told.clear()
            make(told)(0.3)
            assert steps(told) == list(range(1, 13))
        told.clear()
        lax.while_loop(lambda v: v < 3, lambda v: v + 1, 0, progress=told)
        assert told == [(1, None), (2, None), (3, None), (3, 3)]


def test_no_steps():
    told = Told()
    assert lax.fori_loop(0, 0, lambda i, v: v + i, 1, progress=told) == 1
    assert lax.scan(body, 1.0, jnp.ones(0), progress=told)[0] == 1.0
    assert told == []


def test_references_are_scanned_along():
    told = Told()
    ref = weft.new_ref(jnp.arange(4.0))

    def double(carry, x):
        x[...] = 2 * x[...]
        return carry, None

    weft.jit(lambda r: lax.scan(double, None, r, progress=told))(ref)
    np.testing.assert_array_equal(ref[...], [0, 2, 4, 6])
    assert steps(told) == [1, 2, 3, 4]


def test_a_loop_that_is_run_again_is_not_compiled_again(monkeypatch):
    told, x = Told(), jnp.float32(0.3)
    f = by_fori(told)
    f(x)
    gc.collect()
    compiled = counted_compilations(monkeypatch)
    f(x)
    assert compiled == [] and len(told) == 24


def test_another_value_is_an_error():
    with pytest.raises(weft.errors.WeftTypeError, match="scan: progress does not take this value"):
        lax.scan(body, 0.0, jnp.ones(3), progress=3)


# ---- lines -------------------------------------------------------------------------------------


def test_lines_where_there_is_no_terminal(capsys):
    lax.fori_loop(0, 1000, lambda i, v: v + i, 0, progress="counting")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11 and all(line.startswith("counting: ") for line in lines)
    assert lines[0].startswith("counting: 1 of 1,000 (0%), ")
    assert lines[5].startswith("counting: 500 of 1,000 (50%), ")
    assert lines[-1].startswith("counting: 1,000 of 1,000 (100%), ")


def test_one_line_in_a_notebook(monkeypatch, capsys):
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    teller, now = progress.Teller("work", None), [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    for done, seconds in ((1, 100.0), (2, 100.05), (3, 100.2), (4, 100.25)):
        now[0] = seconds
        teller(done, None)
    teller(4, 4)
    text = capsys.readouterr().err
    assert [line.strip() for line in text.split("\r")] == [
        "", "work: 1 step, 0.0 s", "work: 3 steps, 0.2 s", "work: 4 of 4 (100%), 0.2 s",
    ]  # fmt: skip
    assert text.count("\n") == 1 and text.endswith("\n")


def test_the_time_that_is_left(monkeypatch, capsys):
    teller, now = progress.Teller("work", None), [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    for done, seconds in ((1, 0.0), (11, 60.0), (50, 3599.0), (51, 3720.0), (1, 3800.0)):
        now[0] = 1000.0 + seconds
        teller(done, 101)
    assert capsys.readouterr().err.splitlines() == [
        "work: 1 of 101 (0%), 0.0 s",
        "work: 11 of 101 (10%), 1:00, about 9:00 left",
        "work: 50 of 101 (49%), 59:59, about 1:02:26 left",
        "work: 51 of 101 (50%), 1:02:00, about 1:02:00 left",
        "work: 1 of 101 (0%), 0.0 s",
    ]
