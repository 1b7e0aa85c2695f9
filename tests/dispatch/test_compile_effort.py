"""`compile_effort`: which programs XLA optimizes, and that none made with one effort serves the
other."""

from __future__ import annotations

import os

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from compilations import counted_compilations
from processes import python_output
from weft import config, lax
from weft.core.jaxpr import eval_jaxpr

pytestmark = pytest.mark.fast

MESH = weft.make_mesh((2,), ("i",))


def double(x):
    return x * 2


compiled_double = weft.jit(double)
mapped_double = weft.shard_map(double, mesh=MESH, in_specs=weft.P("i"), out_specs=weft.P("i"))
closed_double = weft.make_jaxpr(compiled_double)(np.ones((96, 96), np.float32))

# Ways in which weft comes to an executable, each with a cache of its own.
WAYS = {
    "an operation": lax.tanh,
    "a function of NumPy": jnp.exp,
    "a method that is called again": lambda x: x.sum(axis=1),
    "a function compiled eagerly": jnp.median,
    "a jitted function": compiled_double,
    "a program evaluated again": lambda x: eval_jaxpr(closed_double, (), x),
    "a loop": lambda x: lax.fori_loop(0, 3, lambda i, y: y * 2, x),
    "a reduction": lambda x: lax.reduce(x, np.float32(0), lambda a, b: a + b * 2, (0,)),
    "a branch": lambda x: lax.cond(True, lambda y: y + 1, lambda y: y - 1, x),
    "an eager shard_map": mapped_double,
    "random numbers": lambda x: weft.random.normal(weft.random.key(0), x.shape),
}


def efforts(monkeypatch, way, x):
    """Of each program that a call has compiled, whether it was to be fast."""
    found = counted_compilations(monkeypatch)
    way(x)
    monkeypatch.undo()
    return [options.fast_compile for _, options, *_ in found]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_each_effort_has_its_own_programs(monkeypatch, way):
    # As large as no other test has it, and too large to be compiled fast by itself.
    x = jnp.asarray(np.full((96, 96), 0.5, np.float32))
    with config.override(compile_effort="least"):
        pass  # From here on keys of single operations name the effort.
    with config.override(compile_effort="full"):
        optimized = efforts(monkeypatch, way, x)
        assert efforts(monkeypatch, way, x) in ([], optimized)
    with config.override(compile_effort="least"):
        quick = efforts(monkeypatch, way, x)
        assert quick and all(quick)
    with config.override(compile_effort="full"):
        assert efforts(monkeypatch, way, x) == []
    assert not all(optimized)  # a predicate of one element is fast by itself


def test_an_update_holds_for_all_threads():
    before = config.settings().compile_effort
    try:
        config.update("compile_effort", "least")
        assert config.settings().compile_effort == "least" and config.settings_in_keys
    finally:
        config.update("compile_effort", before)


def test_an_unknown_effort_is_refused():
    with pytest.raises(ValueError, match="compile_effort"), config.override(compile_effort="half"):
        pass


def test_keys_of_operations_name_no_effort_until_one_is_chosen():
    code = (
        "import weft.config as config; assert not config.settings_in_keys\n"
        "with config.override(enable_x64=True): assert not config.settings_in_keys\n"
        "with config.override(compile_effort='least'): assert config.settings_in_keys\n"
        "assert config.settings_in_keys"
    )
    environment = {k: v for k, v in os.environ.items() if k != "WEFT_COMPILE_EFFORT"}
    python_output("-c", code, env=environment)
