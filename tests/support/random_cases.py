"""Draws whose results are recorded in tests/golden/random.json: JAX 0.10.2 gave them on the CPU.

Each case is a function of a random module and a function that makes arrays, so the same text draws
from either library. `X64` are cases with 64-bit results: they were recorded with 64-bit numbers
enabled, and hold without as well, where the dtype is asked for.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden" / "random.json"

SEEDS = (0, 42, -3, 2**31 + 7, 2**40 + 5)
SHAPES = ((), (1,), (5,), (3, 4), (2, 0, 3), (2, 3, 4))
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

CASES = {}
X64 = set()
# Cases whose last digits depend on the order in which a compiler computes: how far they may be off,
# relative to the largest number.
ROUNDED = {}


def case(name, draw, dtype=""):
    """Adds a case; one whose dtype has 64 bits (per real number) is recorded with x64 enabled."""
    assert name not in CASES, name
    CASES[name] = draw
    if dtype in ("float64", "int64", "uint64", "complex128"):
        X64.add(name)


def keys():
    for seed in SEEDS:
        case(f"key {seed}", lambda r, a, s=seed: r.key_data(r.key(s)))
        case(f"PRNGKey {seed}", lambda r, a, s=seed: r.PRNGKey(s))
        case(f"split {seed}", lambda r, a, s=seed: r.key_data(r.split(r.key(s))))
        case(f"split 3 of {seed}", lambda r, a, s=seed: r.split(r.PRNGKey(s), 3))
        case(f"split (2, 3) of {seed}", lambda r, a, s=seed: r.key_data(r.split(r.key(s), (2, 3))))
        for data in (0, 1, 12345, 2**32 - 1):
            case(
                f"fold_in {seed} {data}",
                lambda r, a, s=seed, d=data: r.key_data(r.fold_in(r.key(s), d)),
            )
        case(f"bits {seed}", lambda r, a, s=seed: r.bits(r.key(s), (3,)))
        case(f"normal {seed}", lambda r, a, s=seed: r.normal(r.key(s), (3,)))
    case("key of int8", lambda r, a: r.key_data(r.key(a(-3, "int8"))))
    case("key of uint32", lambda r, a: r.key_data(r.key(a(2**32 - 1, "uint32"))))
    case("fold_in uint8", lambda r, a: r.key_data(r.fold_in(r.key(1), a(250, "uint8"))))
    for dtype in ("int8", "int32", "int64"):
        lowest = np.dtype(dtype).type(-5)
        case(f"fold_in {dtype}", lambda r, a, x=lowest: r.key_data(r.fold_in(r.key(1), x)))
    case("split into none", lambda r, a: r.key_data(r.split(r.key(1), 0)))
    case("split into one without dimensions", lambda r, a: r.key_data(r.split(r.key(1), ())))


def basics():
    for shape in SHAPES:
        for dtype in ("uint8", "uint16", "uint32", "uint64"):
            case(
                f"bits {dtype} {shape}",
                lambda r, a, s=shape, d=dtype: r.bits(r.key(7), s, d),
                dtype,
            )
        for dtype in FLOATS:
            case(
                f"uniform {dtype} {shape}",
                lambda r, a, s=shape, d=dtype: r.uniform(r.key(8), s, d),
                dtype,
            )
            case(
                f"normal {dtype} {shape}",
                lambda r, a, s=shape, d=dtype: r.normal(r.key(9), s, d),
                dtype,
            )
        case(f"randint {shape}", lambda r, a, s=shape: r.randint(r.key(3), s, -5, 20))
    case("normal of a raw key", lambda r, a: r.normal(r.PRNGKey(5), (3,)))
    for dtype in FLOATS:
        case(
            f"uniform between {dtype}",
            lambda r, a, d=dtype: r.uniform(r.key(2), (6,), d, minval=-2.5, maxval=7.0),
            dtype,
        )
    case(
        "uniform between arrays",
        lambda r, a: r.uniform(
            r.key(2),
            (2, 3),
            minval=a([0.0, 1.0, 5.0], "float32"),
            maxval=a([[6.0], [2.0]], "float32"),
        ),
    )
    for dtype in ("complex64", "complex128"):
        case(f"normal {dtype}", lambda r, a, d=dtype: r.normal(r.key(4), (2, 2), d), dtype)


def integers():
    for dtype in INTEGERS:
        case(f"randint {dtype}", lambda r, a, d=dtype: r.randint(r.key(1), (9,), 3, 100, d), dtype)
        case(
            f"randint beyond {dtype}",
            lambda r, a, d=dtype: r.randint(r.key(1), (9,), -(2**31), 2**31 - 1, d),
            dtype,
        )
    case("randint wide", lambda r, a: r.randint(r.key(1), (9,), -(2**40), 2**50, "int64"), "int64")
    case("randint empty range", lambda r, a: r.randint(r.key(1), (3,), 5, 2))
    case("randint full", lambda r, a: r.randint(r.key(1), (4,), 0, 256, "uint8"))
    case(
        "randint of arrays",
        lambda r, a: r.randint(r.key(1), (2, 3), a([[0], [5]], "int32"), a([1, 10, 100], "int32")),
    )
    case(
        "randint of mixed widths",
        lambda r, a: r.randint(r.key(1), (2,), a(-3, "int8"), a([5, 60000], "int32"), "int16"),
    )
    for p in (0.5, 0.1):
        for mode in ("low", "high"):
            case(
                f"bernoulli {p} {mode}",
                lambda r, a, p=p, m=mode: r.bernoulli(r.key(6), p, (20,), mode=m),
            )
    case(
        "bernoulli of an array",
        lambda r, a: r.bernoulli(r.key(6), a([[0.2], [0.7]], "float32"), (2, 8)),
    )
    case("bernoulli default shape", lambda r, a: r.bernoulli(r.key(6), a([0.2, 0.7], "float16")))
    for dtype in ("int8", "int32", "float32"):
        case(f"rademacher {dtype}", lambda r, a, d=dtype: r.rademacher(r.key(6), (9,), d))
    case("geometric", lambda r, a: r.geometric(r.key(6), 0.1, (9,)))
    case(
        "geometric of an array",
        lambda r, a: r.geometric(r.key(6), a([0.5, 0.01], "float32"), (3, 2), "int16"),
    )


def distributions():
    for name in ("exponential", "gumbel", "laplace", "logistic", "cauchy", "maxwell"):
        for dtype in FLOATS:
            case(
                f"{name} {dtype}",
                lambda r, a, n=name, d=dtype: getattr(r, n)(r.key(11), (2, 5), d),
                dtype,
            )
    case("gumbel high", lambda r, a: r.gumbel(r.key(11), (7,), mode="high"))
    for dtype in FLOATS:
        case(
            f"truncated_normal {dtype}",
            lambda r, a, d=dtype: r.truncated_normal(r.key(12), -2.0, 1.0, (2, 5), d),
            dtype,
        )
    bounds = lambda a: (a([-1.0, 0.0], "float32"), a([[2.0], [0.5]], "float32"))  # noqa: E731
    case("truncated_normal of arrays", lambda r, a: r.truncated_normal(r.key(12), *bounds(a)))
    case("lognormal", lambda r, a: r.lognormal(r.key(13), 0.5, (6,)))
    case("lognormal of an array", lambda r, a: r.lognormal(r.key(13), a([0.5, 2.0], "float32")))
    case("pareto", lambda r, a: r.pareto(r.key(13), a([2.0, 5.0], "float32"), (3, 2)))
    case("rayleigh", lambda r, a: r.rayleigh(r.key(13), a([2.0, 5.0], "float32"), (3, 2)))
    case(
        "weibull_min", lambda r, a: r.weibull_min(r.key(13), 2.0, a([1.5, 3.0], "float32"), (3, 2))
    )
    # The same root of the same equation, by a form in which nothing cancels for large means.
    rounded("wald", 4e-7, lambda r, a: r.wald(r.key(13), a([2.0, 0.5], "float32"), (3, 2)))
    case(
        "triangular",
        lambda r, a: r.triangular(r.key(13), -1.0, a([0.0, 1.5], "float32"), 2.0, (4, 2)),
    )
    case(
        "double_sided_maxwell",
        lambda r, a: r.double_sided_maxwell(r.key(13), 1.0, a([2.0, 3.0], "float32"), (3,)),
    )


def choices():
    table = np.linspace(-2, 2, 30, dtype="float32").reshape(2, 3, 5) ** 2
    for axis in (0, 1, -1):
        case(f"categorical axis {axis}", lambda r, a, x=axis: r.categorical(r.key(14), a(table), x))
        shape = (4, *np.delete(table.shape, axis).tolist())
        case(
            f"categorical shape, axis {axis}",
            lambda r, a, x=axis, s=shape: r.categorical(r.key(14), a(table), x, s),
        )
    case(
        "categorical without replacement",
        lambda r, a: r.categorical(r.key(14), a(table), shape=(2, 2, 2, 3), replace=False),
    )
    case(
        "categorical without replacement, axis 1",
        lambda r, a: r.categorical(r.key(14), a(table), 1, shape=(3, 2, 5), replace=False),
    )
    case("categorical high", lambda r, a: r.categorical(r.key(14), a(table), mode="high"))
    for n in (0, 1, 2, 5, 100):
        case(f"permutation {n}", lambda r, a, n=n: r.permutation(r.key(15), n))
    block = np.arange(24, dtype="int16").reshape(4, 6)
    for axis in (0, 1, -1):
        for independent in (False, True):
            case(
                f"permutation of rows {axis} {independent}",
                lambda r, a, x=axis, i=independent: r.permutation(r.key(15), a(block), x, i),
            )
    case("permutation of a vector", lambda r, a: r.permutation(r.key(15), a(block[1])))
    weights = np.array([0.1, 0.0, 0.3, 0.35, 0.25], "float32")
    for replace in (True, False):
        for shape in ((), (3,), (2, 2)):
            case(
                f"choice {replace} {shape}",
                lambda r, a, s=shape, e=replace: r.choice(r.key(16), 5, s, e),
            )
            case(
                f"choice weighted {replace} {shape}",
                lambda r, a, s=shape, e=replace: r.choice(r.key(16), 5, s, e, a(weights)),
            )
            case(
                f"choice of columns {replace} {shape}",
                lambda r, a, s=shape, e=replace: r.choice(r.key(16), a(block), s, e, axis=1),
            )
        for name, x in (("columns", block), ("numbers", 5)):
            case(
                f"choice of no {name} {replace}",
                lambda r, a, x=x, e=replace: r.choice(r.key(16), x, (0,), e, axis=1),
            )
        case(
            f"choice of a vector {replace}",
            lambda r, a, e=replace: r.choice(r.key(16), a(block[2]), (4,), e),
        )
        case(
            f"choice weighted of rows {replace}",
            lambda r, a, e=replace: r.choice(r.key(16), a(block), (3,), e, a(weights[:4] + 0.1)),
        )


def rounded(name, bound, draw, dtype=""):
    """Adds a case that holds up to rounding."""
    case(name, draw, dtype)
    ROUNDED[name] = bound


def half_precision(dtype):
    """Cases that hold to the last bit: each number is rounded as often as in JAX. Those of float16
    were recorded with `XLA_FLAGS=--xla_cpu_max_isa=AVX2`, without arithmetic of that dtype."""
    for a in (0.3, 2.0, 50.0):
        for name in ("gamma", "loggamma", "chisquare", "t", "generalized_normal"):
            if (name, a) == ("t", 0.3):  # infinite
                continue
            case(
                f"{name} {dtype} {a}",
                lambda r, _, n=name, a=a: getattr(r, n)(r.key(20), a, (3, 5), dtype),
            )
        for name in ("beta", "f"):
            case(
                f"{name} {dtype} {a}",
                lambda r, _, n=name, a=a: getattr(r, n)(r.key(20), a, 1.5, (15,), dtype),
            )
    for p in (2.0, 50.0):
        case(f"ball {dtype} {p}", lambda r, _, p=p: r.ball(r.key(20), 3, p, (5,), dtype))
    shapes, alpha = [0.3, 2.0], [0.02, 0.7, 9.0]
    case(f"gammas {dtype}", lambda r, a: r.gamma(r.key(20), a(shapes, dtype), (7, 2), dtype))
    case(f"dirichlet {dtype}", lambda r, a: r.dirichlet(r.key(20), a(alpha, dtype), (5,), dtype))


def gammas():
    for dtype, bound in (("float32", 4e-7), ("float64", 4e-15)):
        for a in (0.3, 1.0, 7.5):
            for name in ("gamma", "loggamma", "chisquare"):
                rounded(
                    f"{name} {dtype} {a}",
                    bound * (5 if name == "chisquare" else 1),
                    lambda r, _, n=name, d=dtype, a=a: getattr(r, n)(r.key(17), a, (2, 4), d),
                    dtype,
                )
        for name in ("beta", "f"):
            rounded(
                f"{name} {dtype}",
                6 * bound,
                lambda r, a, n=name, d=dtype: getattr(r, n)(
                    r.key(17), a([0.4, 3.0], d), a([2.5, 1.5], d), (2,), d
                ),
                dtype,
            )
        rounded(f"t {dtype}", 5 * bound, lambda r, a, d=dtype: r.t(r.key(17), 3.5, (7,), d), dtype)
        rounded(
            f"dirichlet {dtype}",
            bound,
            lambda r, a, d=dtype: r.dirichlet(r.key(17), a([[1.0, 0.2, 4.0]], d), (2,), d),
            dtype,
        )
    for dtype in ("float16", "bfloat16"):
        half_precision(dtype)
    # Signs are drawn in the default dtype, so these hold for float32 without 64-bit numbers only.
    rounded("generalized_normal", 2e-6, lambda r, a: r.generalized_normal(r.key(17), 3.0, (5,)))
    rounded("ball", 2e-6, lambda r, a: r.ball(r.key(1), 3, 1.5, (2,)))


def counts():
    few = [0.0, 0.5, 3.0, 9.9, -1.0, float("nan")]
    case("poisson of few", lambda r, a: r.poisson(r.key(18), a(few, "float32"), (4, 6)))
    # JAX decides in float32, where the terms of larger means cancel, and then elements differ.
    many = [10.0, 35.0, 120.0, 500.0]
    case("poisson of many", lambda r, a: r.poisson(r.key(18), a(many, "float32"), (4, 4)))
    case("poisson int16", lambda r, a: r.poisson(r.key(18), 20.0, (5,), "int16"))
    case("poisson int64", lambda r, a: r.poisson(r.key(18), 20.0, (5,), "int64"), "int64")
    for dtype in ("float32", "float64"):
        case(
            f"binomial {dtype}",
            lambda r, a, d=dtype: r.binomial(
                r.key(18),
                a([10, 100, 50, 1000, 5, 0], d),
                a([0.3, 0.1, 0.7, 0.5, 1.0, 0.5], d),
                (4, 6),
                d,
            ),
            dtype,
        )
    case(
        "multinomial",
        lambda r, a: r.multinomial(
            r.key(18), a([100.0, 7.0], "float32"), a([0.1, 0.4, 0.0, 0.5], "float32"), shape=(2, 4)
        ),
    )


def vectors():
    cov = [[2.0, 0.5], [0.5, 1.0]]
    for dtype, bound in (("float32", 1e-6), ("float64", 1e-14)):
        rounded(
            f"multivariate_normal {dtype}",
            bound,
            lambda r, a, d=dtype: r.multivariate_normal(
                r.key(19), a([1.0, 2.0], d), a(cov, d), (3,), d
            ),
            dtype,
        )
        rounded(
            f"orthogonal {dtype}",
            bound,
            lambda r, a, d=dtype: r.orthogonal(r.key(19), 3, (2,), d, 2),
            dtype,
        )
    rounded("orthogonal complex", 1e-6, lambda r, a: r.orthogonal(r.key(19), 2, (), "complex64"))


def second_generator():
    for impl in ("rbg", "unsafe_rbg"):
        for seed in SEEDS:
            case(f"{impl} key {seed}", lambda r, a, i=impl, s=seed: r.key_data(r.key(s, impl=i)))
        for shape in ((), (3,), (2, 3)):
            case(
                f"{impl} split {shape}",
                lambda r, a, i=impl, s=shape: r.key_data(r.split(r.key(5, impl=i), s)),
            )
        case(f"{impl} fold_in", lambda r, a, i=impl: r.key_data(r.fold_in(r.key(5, impl=i), 77)))
        for dtype in ("uint8", "uint16", "uint32", "uint64"):
            case(
                f"{impl} bits {dtype}",
                lambda r, a, i=impl, d=dtype: r.bits(r.split(r.key(5, impl=i))[0], (3, 5), d),
                dtype,
            )
        case(f"{impl} normal", lambda r, a, i=impl: r.normal(r.key(5, impl=i), (7,)))
    last = [1, 2, 0xFFFFFFFE, 0xFFFFFFFF]
    case(
        "rbg at the end of the counter",
        lambda r, a: r.bits(r.wrap_key_data(a(last, "uint32"), impl="rbg"), (16,), "uint32"),
    )


keys()
basics()
integers()
distributions()
choices()
gammas()
counts()
vectors()
second_generator()


def as_text(value: np.ndarray) -> dict:
    """An array in a form that keeps every bit."""
    return {"dtype": value.dtype.name, "shape": list(value.shape), "bytes": value.tobytes().hex()}


def recorded() -> dict[str, dict]:
    """What is recorded: name -> dtype, shape, bytes."""
    return json.loads(GOLDEN.read_text(encoding="utf-8"))
