"""The settings by weft's names and by JAX's, from the environment and from the command line."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from compilations import counted_compilations
from processes import python_output
from weft import config
from weft.errors import GuardError
from weft.settings import jax_settings, setting_blocks
from weft.settings.rows import HOST_ROWS, ROWS

pytestmark = pytest.mark.fast


def test_names_of_jax_are_taken_with_and_without_their_first_word():
    for name in ("jax_enable_x64", "enable_x64"):
        config.update(name, True)
        assert config.jax_enable_x64 and config.x64_enabled and config.read(name)
        assert jnp.ones(1).dtype == "float64"
        config.update(name, False)
    assert not config.values["jax_enable_x64"]
    with config.override(jax_debug_nans=True):
        assert config.settings().debug_nans and config.jax_debug_nans
    assert not config.jax_debug_nans


@pytest.mark.parametrize(
    ("jax_name", "value", "weft_name", "wanted"),
    [
        ("jax_enable_checks", True, "check_jaxprs", True),
        ("jax_compilation_cache_dir", "/tmp/somewhere", "cache_dir", "/tmp/somewhere"),
        ("jax_compilation_cache_max_size", 1000, "cache_max_bytes", 1000),
        ("jax_enable_compilation_cache", False, "cache_dir", ""),
        ("jax_traceback_filtering", "off", "full_traceback", True),
        ("jax_disable_most_optimizations", True, "compile_effort", "least"),
        ("jax_transfer_guard", "log", "transfer_guard_device_to_host", "log"),
        ("jax_default_matmul_precision", "highest", "default_matmul_precision", "highest"),
    ],
)
def test_what_jax_calls_otherwise(jax_name, value, weft_name, wanted):
    with config.override(**{jax_name: value}):
        assert config.read(weft_name) == wanted and config.read(jax_name) == value


def test_settings_without_a_meaning_here_are_kept():
    assert config.jax_include_full_tracebacks_in_locations is True
    with config.override(jax_include_full_tracebacks_in_locations=False):
        assert config.read("jax_include_full_tracebacks_in_locations") is False
    assert config.jax_include_full_tracebacks_in_locations is True


def test_several_settings_without_a_meaning_change_at_once():
    changes = {"jax_scan3": True, "jax_remat3": True, "jax_traceback_filtering": "tracebackhide"}
    with config.override(**changes):
        assert {name: config.read(name) for name in changes} == changes


def test_values_of_users_have_no_environment_variable():
    names = {"WEFT_USER_CONTEXTS": "a", "WEFT_OPERATION_METADATA": "a", "WEFT_OF_JAX": "a"}
    lines = "import weft; print([weft.config.read(name) for name in NAMES])"
    names_of = "['user_contexts', 'operation_metadata', 'of_jax']"
    assert run(lines.replace("NAMES", names_of), **names) == ["[(),", "(),", "()]"]


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_a_meaning_and_takes_its_default(name):
    row, table = ROWS[name], config.HostSettings if name in HOST_ROWS else config.Settings
    row.kind.check(name, row.default)
    assert row.meaning.endswith(".") and f"\n        {name}: {row.meaning}\n" in table.__doc__


@pytest.mark.parametrize(
    "name", sorted({*setting_blocks.__all__} - {"checking_leaks", "make_user_context"})
)
def test_a_block_changes_the_setting_of_its_name(name):
    default = config.read(name)
    with getattr(weft, name)(default):
        assert config.read(name) == default


def test_a_value_that_asks_for_what_is_missing_is_refused():
    with pytest.raises(NotImplementedError, match="a folder for dumps"):
        config.update("jax_dump_ir_to", "/tmp")
    config.update("jax_dump_ir_to", "")  # what is so anyway
    with pytest.raises(AttributeError, match="no setting is named 'jax_of_mine'"):
        config.update("jax_of_mine", 1)
    with pytest.raises(AttributeError, match="no attribute 'of_mine'"):
        _ = config.of_mine


def test_every_setting_of_jax_can_be_read_and_set_to_its_value():
    values = config.values
    assert len(values) > 120
    for name, value in values.items():
        with config.override(**{name: value}):
            assert config.read(name) == value, name


def test_flags_of_a_command_line():
    found = jax_settings.flag_changes(
        ["--jax_debug_nans", "--nojax_disable_jit", "--jax_enable_x64=false", "--other=1", "file",
         "--jax_default_prng_impl", "rbg", "--jax_random_seed_offset=3", "--", "--jax_debug_infs"]
    )  # fmt: skip
    assert found == {
        "jax_debug_nans": True,
        "jax_disable_jit": False,
        "jax_enable_x64": False,
        "jax_default_prng_impl": "rbg",
        "jax_random_seed_offset": 3,
    }
    with pytest.raises(ValueError, match="true or false"):
        jax_settings.flag_changes(["--jax_debug_nans=perhaps"])


def test_flags_of_absl_count_as_parsed(monkeypatch):
    class Flags:
        parsed = []

        def __call__(self, argv):
            self.parsed.append(argv)

        def is_parsed(self):
            return bool(self.parsed)

    monkeypatch.setitem(sys.modules, "absl.flags", SimpleNamespace(FLAGS=Flags()))
    monkeypatch.setattr(sys, "argv", ["program", "--other=1"])
    for _ in range(2):
        config.parse_flags_with_absl()
    assert Flags.parsed == [[""]]  # once, without the flags that the program parses itself


def run(lines, **environment):
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "WEFT_NUM"))}
    return python_output("-c", lines, env={**variables, "XLA_FLAGS": "", **environment}).split()


def test_variables_of_jax_are_read_where_weft_stands_for_jax():
    lines = "import weft; print(weft.config.jax_enable_x64, len(weft.devices()))"
    given = {"JAX_ENABLE_X64": "1", "JAX_NUM_CPU_DEVICES": "3", "JAX_PLATFORMS": "cpu"}
    assert run("import weft.as_jax; " + lines, **given) == ["True", "3"]
    assert run(lines, **given) == ["False", "1"]
    assert run("import weft.as_jax; " + lines, **given, WEFT_ENABLE_X64="0")[0] == "False"


def test_settings_of_devices_come_before_the_first_device():
    weft.devices()
    with pytest.raises(GuardError, match="comes too late"):
        config.update("jax_num_cpu_devices", 3)
    lines = "import weft; weft.config.update('num_cpu_devices', 2); print(len(weft.devices()))"
    assert run(lines) == ["2"]


def test_what_no_program_depends_on_compiles_nothing_again(monkeypatch):
    f = weft.jit(lambda x: x * 7 - 3)
    f(np.ones(3, np.float32))
    found = counted_compilations(monkeypatch)
    with config.override(log_compiles=True, full_traceback=True, explain_cache_misses=True):
        f(np.ones(3, np.float32))
    assert not found


def test_equal_settings_are_one_object():
    with config.override(disable_jit=True, log_compiles=True):
        first = config.settings(), config.host_settings()
    with config.override(log_compiles=True), config.override(disable_jit=True):
        assert first == (config.settings(), config.host_settings())


def test_a_context_of_a_user_is_part_of_the_key():
    scale = weft.make_user_context(1.0)
    traced = []

    @weft.jit
    def f(x):
        traced.append(scale.value)
        return x * scale.value

    assert f(2.0) == 2.0
    for _ in range(2):
        with scale(5.0):
            assert f(2.0) == 10.0 and scale.value == 5.0
        assert f(2.0) == 2.0
    assert traced == [1.0, 5.0]
    with scale(1.0):
        assert config.settings().user_contexts == ()


def test_lines_about_compiling(caplog):
    with weft.log_compiles(), caplog.at_level("WARNING", "weft"):
        weft.jit(lambda x: x * 11 + 4)(2.0)
    assert "tracing <lambda> took" in caplog.text
    assert "compiling <lambda> for (f32[])" in caplog.text
