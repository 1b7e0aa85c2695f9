"""The libraries whose own tests are run, where these stand, and how many are drawn.

Libraries whose releases on PyPI have no tests are listed with that reason.
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
        without: patterns of files that are left out: they need packages beside JAX.
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
        Suite("blackjax", ("tests/**/test_*.py",), 150, folder="tests"),
        Suite("brax", ("brax/**/*_test.py",), 60),
        Suite("chex", ("chex/**/*_test.py",), 1000),
        Suite("clu", ("clu/**/*_test.py",), 100),
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
        Suite(
            "einops",
            ("einops/tests/test_*.py",),
            1000,
            variables=(("EINOPS_TEST_BACKENDS", "numpy,jax"),),
        ),
        Suite("flashbax", ("flashbax/**/*_test.py",), 80),
        Suite(
            "flax",
            ("tests/**/*_test.py",),
            1000,
            folder="tests",
            without=("tests/io_test.py", "tests/tensorboard_test.py"),  # tensorflow
        ),
        Suite("jmp", ("jmp/**/*_test.py",), 1000),
        Suite("jraph", ("jraph/_src/*_test.py",), 1000),
        Suite("mctx", ("mctx/**/*_test.py",), 60),
        Suite("mujoco-mjx", ("mujoco/mjx/**/*_test.py",), 60),
        Suite("numpyro", ("test/test_*.py",), 300, folder="test"),
        Suite("optax", ("optax/**/*_test.py",), 1000),
        Suite(
            "quax", ("tests/unit/**/test_*.py", "tests/usage/**/test_*.py"), 1000, folder="tests"
        ),
        Suite("rlax", ("rlax/**/*_test.py",), 1000),
        Suite("tinygp", ("tests/**/test_*.py",), 120, folder="tests"),
    )
}

WITHOUT_TESTS = ("diffrax", "equinox", "jaxopt", "jaxtyping", "lineax", "optimistix", "tfp-nightly")
