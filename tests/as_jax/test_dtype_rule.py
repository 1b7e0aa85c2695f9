"""JAX's rule for dtypes, against what JAX 0.10.2 answers: see tests/support/dtype_rule_cases.py."""

from __future__ import annotations

import json
import pathlib
import warnings

import numpy as np
import pytest

import dtype_rule_cases
import weft
import weft.numpy as jnp
from weft import config

RECORDED = json.loads(
    (pathlib.Path(__file__).parent.parent / "data" / "dtype_rule.json").read_text()
)

# Where weft answers otherwise on purpose.
ON_PURPOSE = {
    "integers of any size beside floating-point numbers": (
        "jnp.float32(1) + 2**40",
        "jnp.float32(1) + 2**200",
        "jnp.linspace(0, 2**40, 3)",
        "jnp.uint32(5) & 0xFFFFFFFF",
    ),
    "an integer that fits nowhere is an error": (
        "jnp.full(2, 2**40)",
        "lax.full((2,), 2**40)",
        "jnp.arange(0.0, 2**40, 2**39)",
    ),
    "what JAX does not take": (
        "jnp.fromiter([1, 2], dtype=C)",
        "lax.mul(f, s)",
        "lax.argmax(f, 0, C)",
    ),
    "dtypes without a width follow enable_x64": ("jnp.float_", "jnp.int_"),
    "dtypes without a meaning there": ("fft.fftfreq(3, dtype=C)", "jnp.var(f, dtype=C)"),
    "results of callbacks are cut, too": (
        "J.pure_callback(lambda x: np.asarray(x, C), J.ShapeDtypeStruct((2,), C), f)",
        "J.experimental.io_callback(lambda x: np.asarray(x, C), J.ShapeDtypeStruct((2,), C), f)",
        "J.jit(lambda x: J.pure_callback(lambda x: np.asarray(x, C), "
        "J.ShapeDtypeStruct((2,), C), x))(f)",
    ),
    "loops that do not run give arrays": (
        "lax.fori_loop(0, 2, lambda k, c: c, s)",
        "lax.while_loop(lambda c: False, lambda c: c, v)",
    ),
    "bytes are read in a width that is cut with a warning": (
        "jnp.frombuffer(b'01234567' * 4, dtype=C)",
    ),
    "a NumPy scalar keeps its dtype": ("lax.full((2,), s)",),
}
DIFFER = {text for texts in ON_PURPOSE.values() for text in texts}


def agrees(found: dict[str, object], wanted: dict[str, object]) -> bool:
    """Whether an outcome is JAX's; an error may be of further classes."""
    if "raises" in wanted and "raises" in found:
        first = wanted["raises"][0]  # type: ignore[index]
        return first in found["raises"] and found.get("warns") == wanted.get("warns")  # type: ignore[operator]
    return found == wanted


def test_every_call_gives_what_jax_gives() -> None:
    found = json.loads(json.dumps(dtype_rule_cases.table(weft)))
    assert found.keys() == RECORDED.keys()
    wrong = {
        key: (found[key], wanted)
        for key, wanted in RECORDED.items()
        if not agrees(found[key], wanted) and key.split(" | ")[0] not in DIFFER
    }
    assert not wrong


def test_the_warning_names_the_call_and_the_line() -> None:
    with pytest.warns(
        UserWarning, match="Explicitly requested dtype float64 requested in zeros"
    ) as w:
        x = jnp.zeros(2, np.float64)
    assert x.dtype == np.float32 and w[0].filename == __file__


def test_the_rule_is_scoped_and_part_of_what_is_compiled() -> None:
    made = weft.jit(lambda x: x.astype("float64"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert made(jnp.ones(2)).dtype == np.float32
    with config.override(dtype_rule="weft"):
        assert made(jnp.ones(2)).dtype == np.float64
        assert jnp.zeros(2, np.float64).dtype == np.float64
        with pytest.raises(OverflowError):
            jnp.uint8(200) + 300
    assert int(jnp.uint8(200) + 300) == 244


def test_programs_of_weft_that_need_64_bits_have_them() -> None:
    # Poisson numbers are drawn in float64, and large arrays of bits are counted in uint64.
    key = weft.random.key(0)
    with config.override(dtype_rule="weft"):
        wanted = weft.random.poisson(key, 5000.0, (4,)), weft.random.bits(key, (3,))
    found = weft.random.poisson(key, 5000.0, (4,)), weft.random.bits(key, (3,))
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(found[1], wanted[1])


@pytest.mark.parametrize(
    "name", ["left_shift", "right_shift", "floor_divide", "remainder", "fmod", "power"]
)
def test_booleans_are_computed_with_as_integers(name: str) -> None:
    x, y = np.array([False, True, True]), np.array([True, True, True])
    want = getattr(np, name)(x.astype(np.int32), y.astype(np.int32))
    function = getattr(jnp, name)
    for wrap in (lambda f: f, weft.jit):
        found = wrap(function)(jnp.array(x), jnp.array(y))
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, want)
    assert jnp.square(jnp.array(x)).dtype == np.int32
    with config.override(dtype_rule="weft"):
        assert jnp.square(jnp.array(x)).dtype == np.bool_
        with pytest.raises(weft.errors.DTypeError):
            function(jnp.array(x), jnp.array(y))
    assert function(jnp.array(x), jnp.array(y)).dtype == np.int32
