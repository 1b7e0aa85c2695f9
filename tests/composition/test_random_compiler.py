"""Random programs as users compile them, beside NumPy: what the compiler makes of slices, updates,
pads, reshapes, reductions, products and the rest, at sizes around those where it changes its ways.

A program is text (`compiler_programs`), its jaxpr is evaluated by rules of NumPy's alone, with a
bound of what rounding may do to each element (`bounded_evaluation`), and a program that leaves its
bound is made smaller (`smaller_programs`). `make fuzz ARGS="--family compiler"` draws new ones.
"""

from __future__ import annotations

import numpy as np
import pytest

from bounded_evaluation import NoRule, in_steps
from compiled_beside_numpy import Finding, compare, evaluated, settings_of
from compiler_inputs import Input
from compiler_programs import Program, draw
from smaller_programs import smaller

# Programs that every run of the tests compiles; the corpus has more.
SAMPLE = 10


def check(seed: int) -> bool:
    """Raises AssertionError if the program of a seed gives what rounding does not explain, with a
    smaller one; False for a program that cannot be judged."""
    program = draw(seed)
    try:
        finding, _ = compare(program)
    except NoRule:
        return False
    if finding is not None:
        raise AssertionError(str(smallest(finding)))
    return True


def smallest(finding: Finding) -> Finding:
    """The finding of the smallest program that fails in the same way."""
    last = finding

    def fails(program: Program) -> bool:
        nonlocal last
        try:
            found, _ = compare(program)
        except Exception:  # noqa: BLE001 (a candidate may be no program)
            return False
        if found is None or type(found.error) is not type(finding.error):
            return False
        last = found
        return True

    smaller(finding.program, fails)
    return last


@pytest.mark.parametrize("seed", range(50, 50 + SAMPLE))
def test_a_compiled_program_gives_what_numpy_gives(seed):
    check(seed)


test_a_compiled_program_gives_what_numpy_gives.from_seed = check


# ---- what the comparison finds ----------------------------------------------------------------


def program(*lines, mode="jit", dtype="float32", **inputs):
    """A program of lines v9, v8, ..., where each reads the one before; the last is its result."""
    drawn = tuple(
        (name, Input(kind, shape, "int32" if kind == "places" else dtype, 3))
        for name, (kind, shape) in inputs.items()
    )
    names = [f"v{9 - k}" for k in range(len(lines))]
    return Program(drawn, tuple(zip(names, lines, strict=True)), (names[-1],), mode)


def copied_forwards(x):
    """What an update of an array by a part of itself gives if it reads what it has written."""
    out = np.array(x) + np.float32(1)
    for i in range(1, len(out)):
        out[i] = out[i - 1]
    return out[None]


# Programs that jaxlib 0.10.2 compiles wrongly unless their lowering prevents it, each with what it
# gives: a function of the inputs.
FAULTS = {
    "the largest of numbers and NaN": (
        program("v0.at[7].set(jnp.nan)", "jnp.max(v9)", v0=("grid", (4096,))),
        lambda x: np.float32(x.max()),
    ),
    "where the largest of numbers and NaN is": (
        program("v0.at[7].set(jnp.nan)", "jnp.argmax(v9)", v0=("grid", (4096,))),
        lambda x: np.int32(x.argmax()),
    ),
    "a sum of tiles": (
        program("jnp.tile(v0, (20, 1))", "v9.sum(0)", v0=("grid", (3, 20003))),
        lambda x: np.float32(19) * x.sum(0),
    ),
    "a sum of tiles that is rounded": (
        program("jnp.tile(v0, (20, 1))", "v9.sum(0)", v0=("normal", (3, 20003))),
        lambda x: np.float32(19) * x.sum(0),
    ),
    "a sum of products over many rows": (
        program("v1 @ v0.T", "v9.sum(0)", v0=("normal", (32770, 3)), v1=("normal", (2, 3))),
        lambda x, a: np.where(np.arange(32770) < 32768, (a @ x.T).sum(0), 0).astype("float32"),
    ),
    "a stack of frames": (
        program("v0 + 1", "v9.at[1:].set(v9[:-1])", "v8[None]", v0=("grid", (8,))),
        copied_forwards,
    ),
    "a slice of a slice": (
        program(
            "lax.dynamic_slice(v0, (v1[0],), (4,))",
            "lax.dynamic_slice(v9, (v1[1],), (1,))",
            v0=("normal", (10,)),
            v1=("places", (2,)),
        ),
        lambda x, starts: x[np.clip(starts.sum(), 0, 9)][None],
    ),
    "an index into a slice": (
        program(
            "lax.dynamic_slice(v0, (v1[0],), (4,))",
            "v9[v1[1]]",
            v0=("normal", (10,)),
            v1=("places", (2,)),
        ),
        lambda x, starts: x[np.clip(starts.sum(), 0, 9)],
    ),
    "an exponential of NaN": (
        program("v0 * jnp.nan", "jnp.exp(v9)", v0=("normal", (8,))),
        lambda x: np.full(8, 2.4e38, "float32"),
    ),
    "a logarithm of a sum of exponentials of NaN": (
        program("v0 * jnp.nan", "weft.nn.logsumexp(v9, axis=1)", v0=("normal", (8, 2))),
        lambda x: np.full(8, -87.3, "float32"),
    ),
    "a softmax of large products": (
        program("v0 * 1e10", "weft.nn.softmax(v9)", v0=("normal", (8,))),
        lambda x: np.full(8, np.nan, "float32"),
    ),
    "a logsumexp of large products": (
        program("v0 * 1e10", "weft.nn.logsumexp(v9, axis=1)", v0=("normal", (4, 64))),
        lambda x: np.full(4, np.inf, "float32"),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_comparison_finds_what_the_compiler_did_wrong(fault):
    drawn, faulty = FAULTS[fault]
    with settings_of(drawn):
        reference = evaluated(drawn)
        wrong = reference.wrong(0, np.asarray(faulty(*map(np.asarray, reference.arguments))))
    assert wrong is not None and wrong.any()


@pytest.mark.parametrize("fault", FAULTS)
def test_the_comparison_takes_what_numpy_gives(fault):
    """In the precision of the program, step by step."""
    drawn, _ = FAULTS[fault]
    with settings_of(drawn):
        reference = evaluated(drawn)
        (out,) = in_steps(reference.jaxpr, reference.operands, None)
        assert reference.wrong(0, out.nearest()) is None


@pytest.mark.parametrize("seeds", [range(k, k + 20) for k in range(1000, 1060, 20)], ids=str)
def test_numpy_in_the_precision_of_a_program_stays_within_its_bounds(seeds):
    for seed in seeds:
        drawn = draw(seed)
        with settings_of(drawn):
            try:
                reference = evaluated(drawn)
            except NoRule:
                continue
            outs = in_steps(reference.jaxpr, reference.operands, None)
            for number, out in enumerate(outs):
                wrong = reference.wrong(number, out.nearest())
                assert wrong is None, f"{drawn.source()}\n{np.argwhere(wrong)[:5]}"


# ---- smaller programs -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["jit", "grad", "sharded"])
def test_a_program_is_made_as_small_as_what_fails(mode):
    """What fails here is a maximum over at least five numbers behind a slice."""
    drawn = program(
        "v0 * 2.0",
        "v9[3:]",
        "v8 + v1",
        "jnp.max(v7, axis=0)",
        "v6[None] * 3.0",
        mode=mode,
        v0=("special", (40, 8)),
        v1=("normal", (37, 8)),
    )

    def fails(candidate):
        try:
            with settings_of(candidate):
                evaluated(candidate)
        except Exception:  # noqa: BLE001 (a candidate may be no program)
            return False
        maxima = [e for _, e in candidate.lines if "jnp.max(" in e]
        return bool(maxima) and max(x.shape[0] for _, x in candidate.inputs if x.shape) >= 5

    assert fails(drawn)
    least = smaller(drawn, fails)
    assert fails(least)
    assert [e.split("(")[0] for _, e in least.lines] == ["jnp.max"]
    assert [x.kind for _, x in least.inputs] == ["grid"]
    assert sum(x.value().size for _, x in least.inputs) <= 16
    assert least.mode == ("jit" if mode == "sharded" else mode)


def test_a_finding_is_printed_as_a_program_that_runs(tmp_path):
    drawn, faulty = FAULTS["the largest of numbers and NaN"]
    with settings_of(drawn):
        reference = evaluated(drawn)
        got = np.asarray(faulty(*map(np.asarray, reference.arguments)))
        finding = Finding(drawn, 0, reference.wrong(0, got), got, reference.results[0])
    text = str(finding)
    assert "result 0 is wrong in 1 of 1 elements" in text and "want np.float64(nan)" in text
    names = {}
    exec(text, names)
    assert names["described"] == drawn and names["arguments"][0].shape == (4096,)
