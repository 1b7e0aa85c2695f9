"""`import jax` answered by weft: which objects it gives, and what it says where it cannot."""

from __future__ import annotations

import importlib
import os
import pathlib
import subprocess
import sys

import pytest

import weft
import weft.as_jax
from processes import python_output
from weft.as_jax.modules import MODULES

pytestmark = pytest.mark.fast

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def run(*arguments: str, path: tuple[pathlib.Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own, with weft and further folders on its path."""
    folders = os.pathsep.join(map(str, (*path, ROOT)))
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": folders},
        cwd=ROOT.parent,
        check=False,
    )


def fake_jax(folder: pathlib.Path) -> pathlib.Path:
    """A folder with a package that passes for the real jax."""
    (folder / "jax").mkdir()
    (folder / "jax" / "__init__.py").write_text("__version__ = '0.0.1'\n")
    return folder


def test_names_are_the_same_objects() -> None:
    import jax
    import jax.numpy as jnp
    from jax import lax

    assert jax.Array is weft.Array and jax.jit is weft.jit
    assert jnp is weft.numpy
    assert lax is weft.lax
    assert jax.__version__ == "0.10.2" and jax.__version_info__ == (0, 10, 2)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_module_is_imported(name: str) -> None:
    module = importlib.import_module(name)
    parent, _, last = name.rpartition(".")
    if parent:
        assert getattr(importlib.import_module(parent), last) is module
    for found in getattr(module, "__all__", ()):
        getattr(module, found)


def test_modules_of_weft_stay_what_they_are() -> None:
    """The import system writes into parents and into specifications: none of weft's may change."""
    program = """
import importlib, sys
import weft
from weft.as_jax.modules import MODULES
sources = sorted({source.partition(':')[0] for sources in MODULES.values() for source in sources})
before = {source: importlib.import_module(source) for source in sources}
state = {name: (m.__name__, m.__spec__, m.__loader__, m.__package__) for name, m in before.items()}
for name in MODULES:
    importlib.import_module(name)
for name, module in before.items():
    assert sys.modules[name] is module, name
    parent, _, last = name.rpartition('.')
    if parent and name != 'weft.as_jax':
        assert getattr(sys.modules[parent], last) is module, name
    assert state[name] == (
        module.__name__, module.__spec__, module.__loader__, module.__package__
    ), name
print('unchanged')
"""
    done = run("-c", program)
    assert done.stdout == "unchanged\n", done.stderr


def test_missing_names_and_modules_are_explained() -> None:
    import jax

    assert not hasattr(jax, "no_such_name")
    with pytest.raises(AttributeError, match=r"weft has no jax\.no_such_name: docs/parity\.md#jax"):
        _ = jax.no_such_name
    with pytest.raises(ModuleNotFoundError, match=r"weft has no jax\.no_such_module: docs/parity"):
        importlib.import_module("jax.no_such_module")
    with pytest.raises(ImportError, match=r"weft has no jax\.no_such_name: docs/parity\.md#jax "):
        from jax import no_such_name  # noqa: F401


def test_the_real_jax_must_not_come_first(tmp_path: pathlib.Path) -> None:
    done = run("-c", "import jax, weft.as_jax", path=(fake_jax(tmp_path),))
    assert done.returncode == 1 and "RealJaxImported: the real jax (0.0.1" in done.stderr
    assert "import weft.as_jax first" in done.stderr


def test_an_installed_jax_is_passed_by(tmp_path: pathlib.Path) -> None:
    program = "import weft.as_jax, jax; print(jax.__version__)"
    done = run("-c", program, path=(fake_jax(tmp_path),))
    assert done.stdout == "0.10.2\n", done.stderr


def test_the_distribution_named_jax() -> None:
    program = """
import jax, jax.numpy as jnp, weft
from jax import random
assert jax.Array is weft.Array and jnp is weft.numpy and random is weft.random
import sys
print(jax.__version__, sys.modules['jax'] is jax)
"""
    done = run("-c", program, path=(ROOT / "compat" / "jax",))
    assert done.stdout == "0.10.2 True\n", done.stderr


def test_weft_alone_loads_none_of_it() -> None:
    done = run("-c", "import weft, sys; print([m for m in sys.modules if 'as_jax' in m])")
    assert done.stdout == "[]\n", done.stderr


PROGRAM = "import sys, jax, beside; print(sys.argv[1:], __name__, jax.__version__)\n"


@pytest.mark.parametrize("form", ["file", "module", "command"])
def test_a_program_that_is_not_touched(tmp_path: pathlib.Path, form: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("")
    named = {
        "file": [str(tmp_path / "program.py")],
        "module": ["-m", "program"],
        "command": ["-c", PROGRAM],
    }[form]
    path = () if form == "file" else (tmp_path,)
    done = run("-m", "weft.as_jax", *named, "a", "-b", path=path)
    assert done.stdout == "['a', '-b'] __main__ 0.10.2\n", done.stderr


@pytest.mark.parametrize("arguments", [(), ("-m",), ("-c",)])
def test_a_call_that_names_no_program(arguments: tuple[str, ...]) -> None:
    done = run("-m", "weft.as_jax", *arguments)
    assert done.returncode == 2 and done.stderr.startswith("usage: python -m weft.as_jax")


def test_a_file_that_is_not_there() -> None:
    done = run("-m", "weft.as_jax", "nowhere.py")
    assert done.returncode == 2
    assert done.stderr == "python -m weft.as_jax: there is no file nowhere.py\n"


def test_names_that_libraries_take_from_elsewhere():
    program = """
import weft.as_jax, jax
from jax._src.lib import xla_client
from jax.experimental.ode import api_util, odeint, ravel_first_arg
assert xla_client.XlaRuntimeError is jax.errors.JaxRuntimeError
assert jax.experimental.ode.odeint is odeint
_, unravel = jax.flatten_util.ravel_pytree((1.0, 2.0))
doubled = ravel_first_arg(lambda x, y: (x[0] * y, x[1]), unravel, None)
assert doubled(jax.numpy.array([3.0, 4.0]), 2.0).tolist() == [6.0, 4.0]
aval = jax.typeof(jax.numpy.ones(2))
assert aval.sharding.is_fully_replicated and aval.sharding.mesh.empty
assert aval.sharding.spec == jax.P(None) and jax.core.ShapedArray((2,), "float32") is aval
assert jax.core.ShapedArray((2,), "float32", sharding=aval.sharding) is aval
assert jax.numpy.zeros(2, out_sharding=aval.sharding).shape == (2,)
assert jax.numpy.shape(None) == () and jax.numpy.ndim(None) == 0
assert jax.core.ShapedArray((2,), "float32", sharding=None).shape == (2,)
"""
    python_output("-c", program)


def test_trees_are_compared_by_the_precision_of_their_dtypes():
    program = """
import weft.as_jax, jax, jax.numpy as jnp
from jax._src.public_test_util import check_close, check_grads
assert check_grads is jax.test_util.check_grads
check_close({"a": jnp.ones(2)}, {"a": 1 + 5e-7 * jnp.ones(2)})
for other in ({"a": 1.1 * jnp.ones(2)}, {"b": jnp.ones(2)}):
    try:
        check_close({"a": jnp.ones(2)}, other)
    except AssertionError:
        continue
    raise SystemExit(f"equal to {other}")
"""
    python_output("-c", program)
