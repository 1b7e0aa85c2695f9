"""The libraries whose own tests are run, where these stand, and how many are drawn.

Libraries whose releases on PyPI have no tests, or not what these import (jax-md, jaxlie), are
listed as such.
"""

from __future__ import annotations

import dataclasses

__all__ = ["SUITES", "WITHOUT_TESTS", "Suite"]


@dataclasses.dataclass(frozen=True)
class Suite:
    """Some files of tests of a library.

    Attributes:
        library: the distribution.
        files: patterns of files, relative to the folder of installed packages, or to the source
            distribution if `folder` is given; files that match `without` are left out.
        count: how many tests are drawn, by the hash of their names.
        folder: what is taken out of the source distribution (None: the tests are installed).
        without: patterns of files that are left out: they need packages beside JAX,
            or measure times.
        options: further arguments for pytest.
        variables: further environment variables.
    """

    library: str
    files: tuple[str, ...]
    count: int
    folder: str | None = None
    without: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


SUITES = {
    suite.library: suite
    for suite in (
        Suite("array-api-compat", ("array_api_compat/tests/test_*.py",), 100),
        Suite("bayex", ("tests/test_*.py",), 40, folder="tests"),
        Suite("bijx", ("tests/test_*.py",), 120, folder="tests"),
        Suite("blackjax", ("tests/**/test_*.py",), 150, folder="tests"),
        Suite("brax", ("brax/**/*_test.py",), 60, without=("brax/**/perf_test.py",)),
        Suite("chex", ("chex/**/*_test.py",), 1000),
        Suite("clu", ("clu/**/*_test.py",), 100),
        Suite("coix", ("coix/*_test.py",), 30),
        Suite("coordax", ("coordax/**/*_test.py",), 150),
        Suite(
            "distrax",
            ("distrax/**/*_test.py",),
            1000,
            without=("distrax/_src/distributions/log_stddev_normal_test.py",),  # mock
        ),
        Suite(
            "dm-haiku",
            ("haiku/**/*_test.py",),
            1000,
            without=(
                "haiku/_src/data_structures_test.py",  # dill
                "haiku/_src/integration/jax2tf_test.py",  # tensorflow, as the next two
                "haiku/_src/reshape_test.py",
                "haiku/_src/transform_test.py",
            ),
        ),
        Suite("dm-pix", ("dm_pix/**/*_test.py",), 100),
        Suite("dynamax", ("dynamax/**/*_test.py",), 60),
        Suite("e3nn-jax", ("tests/**/*_test.py",), 120, folder="tests"),
        Suite(
            "einops",
            ("einops/tests/test_*.py",),
            1000,
            variables=(("EINOPS_TEST_BACKENDS", "numpy,jax"),),
        ),
        Suite("evermore", ("tests/test_*.py",), 120, folder="tests"),
        Suite("exponax", ("tests/test_*.py",), 120, folder="tests"),
        Suite("fedjax", ("fedjax/**/*_test.py",), 100),
        Suite("flashbax", ("flashbax/**/*_test.py",), 80),
        Suite(
            "flax",
            ("tests/**/*_test.py",),
            1000,
            folder="tests",
            without=("tests/io_test.py", "tests/tensorboard_test.py"),  # tensorflow
        ),
        Suite("flowjax", ("tests/**/test_*.py",), 120, folder="tests"),
        Suite("flowmc", ("tests/**/test_*.py",), 60, folder="tests"),
        Suite("folx", ("test/test_*.py",), 120, folder="test"),
        Suite("gpjax", ("tests/**/test_*.py",), 150, folder="tests"),
        Suite("gymnax", ("tests/test_*.py",), 80, folder="tests"),
        Suite("haliax", ("tests/*test*.py",), 200, folder="tests"),
        Suite("interpax", ("tests/test_*.py",), 80, folder="tests"),
        Suite("jax-dataclasses", ("tests/test_*.py",), 80, folder="tests"),
        Suite("jmp", ("jmp/**/*_test.py",), 1000),
        Suite("jraph", ("jraph/_src/*_test.py",), 1000),
        Suite("keras", ("keras/src/**/*_test.py",), 200, variables=(("KERAS_BACKEND", "jax"),)),
        Suite("matfree", ("tests/**/test_*.py",), 120, folder="tests"),
        Suite("mctx", ("mctx/**/*_test.py",), 60),
        Suite("mujoco-mjx", ("mujoco/mjx/**/*_test.py",), 60),
        Suite("numpyro", ("test/test_*.py",), 300, folder="test"),
        Suite("optax", ("optax/**/*_test.py",), 1000),
        Suite("paramax", ("tests/test_*.py",), 60, folder="tests"),
        Suite("penzai", ("tests/**/*_test.py",), 150, folder="tests"),
        Suite(
            "pgx",
            ("tests/test_*.py", "pgx/_src/*_test.py"),
            60,
            without=("tests/test_bridge_bidding.py",),
        ),
        Suite(
            "quax", ("tests/unit/**/test_*.py", "tests/usage/**/test_*.py"), 1000, folder="tests"
        ),
        Suite("rlax", ("rlax/**/*_test.py",), 1000),
        Suite("s2fft", ("tests/test_*.py",), 100, folder="tests"),
        Suite("tinygp", ("tests/**/test_*.py",), 120, folder="tests"),
        Suite("traceax", ("tests/test_*.py",), 60, folder="tests"),
    )
}

WITHOUT_TESTS = (
    "augmax", "diffrax", "distreqx", "dynamiqs", "equinox", "esquilax", "evosax", "jax-md",
    "jax-tqdm", "jaxkd", "jaxlie", "jaxns", "jaxopt", "jaxtyping", "jumanji", "lineax", "netket",
    "optimistix", "ott-jax", "tfp-nightly", "treescope",
)  # fmt: skip
