"""What has no bounds says so, with the operation, the line and what to do."""

from __future__ import annotations

import numpy as np
import pytest
from intervals import Interval, NoIntervalRuleError, enclose, register_interval

import weft
import weft.numpy as jnp
from weft import lax
from weft.errors import LeakedTracerError, TracerBoolConversionError, WeftTypeError, WeftValueError
from weft.extend.core import primitives

X = Interval(jnp.float32(0.25), jnp.float32(0.5))


def test_a_missing_rule_is_named_with_its_line_and_the_call_that_registers_one():
    def function(x):
        y = jnp.exp(x)
        return lax.lgamma(y)  # here

    for use in (enclose(function), enclose(weft.jit(function)), weft.jit(enclose(function))):
        with pytest.raises(NoIntervalRuleError, match="'lgamma' has no interval rule") as info:
            use(X)
        line = function.__code__.co_firstlineno + 2
        assert f"test_errors.py:{line}" in str(info.value)
    call = info.value.fix.text.split("intervals.", 1)[1]

    def rule(x):  # decreasing below 1.46, where the arguments lie
        return Interval(lax.lgamma(x.upper) - 1e-3, lax.lgamma(x.lower) + 1e-3)

    eval(
        call,
        {"register_interval": register_interval, "lgamma_p": primitives.lgamma_p, "rule": rule},
    )
    narrow = Interval(jnp.float32(0.0), jnp.float32(0.25))
    found = enclose(function)(narrow)
    assert -0.12 < found.lower < -0.1055 and 0.0 < found.upper < 0.01
    with pytest.raises(WeftValueError, match="has an interval rule already"):
        register_interval(primitives.lgamma_p, rule)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: jnp.floor(x).astype("int32") + 1, "integers wrap around"),
        (lambda x: lax.sort_key_val(x[None], jnp.ones(1)), "depends on an uncertain value"),
    ],
)
def test_uncertain_integers_and_places(function, message):
    with pytest.raises(WeftTypeError, match=message):
        enclose(function)(X)


def test_python_branches_and_leaks():
    with pytest.raises(TracerBoolConversionError, match="under enclose"):
        enclose(lambda x: x if x > 0 else -x)(X)
    kept = []
    enclose(lambda x: kept.append(x) or x)(X)
    with pytest.raises(LeakedTracerError, match="enclose"):
        jnp.sin(kept[0])
    kept.clear()


def test_bounds_of_different_types():
    with pytest.raises(WeftValueError, match="shape or dtype"):
        enclose(jnp.sin)(Interval(np.zeros(2, np.float32), np.zeros(3, np.float32)))
