"""Programs from the cache on disk are those that were compiled; keys are equal in all processes."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from test_runtime import put

import weft
from processes import python_output
from stablehlo_programs import type_of
from weft import config
from weft.errors import DeletedArrayError
from weft.runtime import client, stablehlo
from weft.runtime.backends import cache_keys, disk_cache
from weft.runtime.backends.backend import CompileOptions
from weft.runtime.backends.pjrt_executable import native_options
from weft.runtime.stablehlo import attributes

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]


class Unshared(dict):
    """Stands for what this process has loaded: as another process would find it."""

    def __setitem__(self, key, value):
        pass


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_cache, "_warned", set())
    monkeypatch.setattr(cache_keys, "_loaded", Unshared())
    with config.override(cache_dir=str(tmp_path)):
        yield disk_cache.current()


def test_equal_modules_share_one_executable_of_a_process():
    x = np.arange(7, dtype=np.float32)

    def compiled(**options):
        return client.backend().compile(doubled(x, **options), CompileOptions(), [type_of(x)])

    first, second, other = compiled(), compiled(line=2), compiled(donate=True)
    assert first.loaded is second.loaded is not other.loaded
    assert "add_2" in second.as_text() and "add_2" not in first.as_text()
    del first
    np.testing.assert_array_equal(client.backend().to_numpy(second.run([put(x)])[0]), 2 * x)
    assert second.serialize() and compiled().loaded is second.loaded
    kept = len(cache_keys._loaded)
    del second
    gc.collect()
    assert len(cache_keys._loaded) < kept


def test_another_directory_gets_what_is_compiled_under_it(tmp_path):
    x = np.arange(7, dtype=np.float32)
    executables = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        with config.override(cache_dir=str(folder)):
            made = client.backend().compile(doubled(x), CompileOptions(), [type_of(x)])
            executables.append(made)
            assert disk_cache.current().info().entries == 1


def doubled(x, line=1, donate=False, name="doubling"):
    """A module that adds an array to itself, written in a certain line."""
    module = stablehlo.Module(name)
    kind = stablehlo.array_type_to_ir(type_of(x))
    donor = {"jax.buffer_donor": attributes.boolean(True)} if donate else {}
    with (
        module.function("main", [kind], [kind], public=True, arg_attributes=[donor]) as main,
        stablehlo.location("program.py", line, "f", f"jit(f)/add_{line}"),
    ):
        main.return_([stablehlo.add(*main.arguments, *main.arguments)])
    return module.ir


def over_eight(x):
    """A program of eight devices with a donated argument: it doubles, transposes and sums."""
    module = stablehlo.Module("mesh", num_partitions=8)
    mesh = stablehlo.mesh(module, [("i", 4), ("j", 2)])
    split = {"sdy.sharding": stablehlo.sharding(mesh, (("i",), ("j",)))}
    kind = stablehlo.array_type_to_ir(type_of(x))
    with module.function(
        "main", [kind], [kind, kind], public=True,
        arg_attributes=[split | {"jax.buffer_donor": attributes.boolean(True)}],
        result_attributes=[split, {}],
    ) as main:  # fmt: skip
        twice = stablehlo.add(*main.arguments, *main.arguments)
        main.return_([twice, stablehlo.transpose(twice, (1, 0))])
    return module.ir


def twice(module, types, **options):
    """A program compiled, and the same loaded from the cache."""
    chosen = CompileOptions(**options)
    first = client.backend().compile(module, chosen, types)
    second = client.backend().compile(module, chosen, types)
    assert first.compile_again is None and second.compile_again is not None
    return first, second


def test_a_program_is_found_again(cache):
    x = np.arange(6, dtype=np.float32)
    first, second = twice(doubled(x), [type_of(x)])
    for executable in (first, second):
        np.testing.assert_array_equal(client.backend().to_numpy(executable.run([put(x)])[0]), 2 * x)
    info = cache.info()
    assert (info.entries, info.hits, info.misses) == (1, 1, 1)


def lists(assignments):
    return [None if found is None else found.tolist() for found in assignments]


def facts(executable):
    return {
        "fingerprint": executable.fingerprint,
        "parameter_layouts": executable.parameter_layouts(),
        "output_layouts": executable.output_layouts(),
        "parameters": lists(executable.parameter_assignments()),
        "outputs": lists(executable.output_assignments()),
        "memory": executable.memory_stats(),
        "cost": executable.cost_analysis(),
        "text": executable.as_text(),
    }


def test_a_loaded_program_tells_the_same_of_itself(cache):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    first, second = twice(doubled(x, donate=True), [type_of(x)])
    assert facts(first) == facts(second)
    assert facts(second)["memory"].alias_size_in_bytes == x.nbytes


def test_a_loaded_program_over_eight_devices(cache):
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    first, second = twice(over_eight(x), [type_of(x)] * 2, num_partitions=8)
    told = facts(first)
    assert told == facts(second)
    assert told["parameters"][0] is not None and told["memory"].alias_size_in_bytes > 0
    where = client.backend().tiled(client.devices(), first.parameter_assignments()[0])
    for executable in (first, second):
        blocks = [x[2 * i : 2 * i + 2, 4 * j : 4 * j + 4] for i in range(4) for j in range(2)]
        argument = client.backend().put_shards(blocks, type_of(x), where, client.devices())
        outs = executable.run([argument])
        for out, expected in zip(outs, (2 * x, 2 * x.T), strict=True):
            split = executable.output_assignments()[outs.index(out)]
            for position, part in enumerate(client.backend().shards(out)):
                block = expected
                if split is not None:
                    rows, columns = (np.argwhere(split == position)[0])[:2]
                    height = expected.shape[0] // split.shape[0]
                    width = expected.shape[1] // split.shape[1]
                    block = expected[rows * height :][:height, columns * width :][:, :width]
                np.testing.assert_array_equal(client.backend().to_numpy(part), block)
        assert client.backend().is_deleted(argument)
        with pytest.raises(DeletedArrayError):
            executable.run([argument])


def test_donation_of_a_loaded_program(cache):
    x = np.arange(5000, dtype=np.float32)
    for executable in twice(doubled(x, donate=True), [type_of(x)]):
        argument = client.backend().put(x, type_of(x), client.devices()[0])
        before = client.backend().unsafe_pointer(argument)
        out = executable.run([argument])[0]
        assert client.backend().unsafe_pointer(out) == before
        with pytest.raises(DeletedArrayError):
            executable.run([argument])


def test_a_loaded_program_can_be_serialized(cache):
    x = np.arange(6, dtype=np.float32)
    for executable in twice(doubled(x), [type_of(x)]):
        data = executable.serialize()
        for _ in range(2):
            again = client.backend().deserialize(data, CompileOptions(), [type_of(x)])
            np.testing.assert_array_equal(client.backend().to_numpy(again.run([put(x)])[0]), 2 * x)
            data = again.serialize()


def test_the_text_names_the_lines_of_this_program(cache):
    x = np.arange(6, dtype=np.float32)
    client.backend().compile(doubled(x, line=7), CompileOptions(), [type_of(x)])
    other = client.backend().compile(doubled(x, line=8), CompileOptions(), [type_of(x)])
    assert other.compile_again is not None
    assert "add_8" in other.as_text() and "add_7" not in other.as_text()


def test_what_xla_does_not_take_is_compiled_again(cache):
    x = np.arange(6, dtype=np.float32)
    client.backend().compile(doubled(x), CompileOptions(), [type_of(x)])
    (name,) = [n for n in os.listdir(cache.directory) if n.endswith(".program")]
    key = name.removesuffix(".program")
    cache.store(key, cache_keys._MAKER, b"not a program")
    with pytest.warns(RuntimeWarning, match="XLA does not take it"):
        executable = client.backend().compile(doubled(x), CompileOptions(), [type_of(x)])
    np.testing.assert_array_equal(client.backend().to_numpy(executable.run([put(x)])[0]), 2 * x)
    first, second = twice(doubled(x, name="other"), [type_of(x)])
    assert client.backend().compile(doubled(x), CompileOptions(), [type_of(x)]).compile_again


# ---- what is not kept ----------------------------------------------------------------------------


def test_programs_that_call_python_are_not_kept(cache):
    seen = []
    f = weft.jit(lambda x: (weft.debug.callback(seen.append, x), x + 1.5)[1])
    weft.block_until_ready(f(1.0))
    assert len(seen) == 1
    assert cache.misses == 0 and not [n for n in os.listdir(cache.directory) if n != "size"]


def test_who_asks_for_a_dump_gets_one(cache, tmp_path):
    x = np.arange(6, dtype=np.float32)
    options = CompileOptions(compiler_options={"xla_dump_to": str(tmp_path / "dump")})
    for _ in range(2):
        assert client.backend().compile(doubled(x), options, [type_of(x)]).compile_again is None
    assert cache.info().entries == 0


def test_an_option_that_xla_lacks_is_still_an_error(cache):
    x = np.arange(6, dtype=np.float32)
    options = CompileOptions(compiler_options={"xla_no_such_option": True})
    with pytest.raises(weft.errors.WeftValueError, match="no such compiler option"):
        client.backend().compile(doubled(x), options, [type_of(x)])
    assert cache.info().entries == 0


# ---- keys ----------------------------------------------------------------------------------------


def key_of(module, devices=None, threads=4, **options):
    devices = devices or client.devices()[:1]
    native = native_options(CompileOptions(**options), devices)
    return cache_keys.program_key(client.backend().client, module, native, devices, threads)


def test_lines_are_no_part_of_a_key():
    x = np.arange(6, dtype=np.float32)
    assert key_of(doubled(x, line=7)) == key_of(doubled(x, line=8))


def test_everything_else_is_part_of_a_key(monkeypatch):
    x = np.arange(6, dtype=np.float32)
    module = doubled(x)
    found = {
        "the same": key_of(module),
        "shape": key_of(doubled(np.arange(7, dtype=np.float32))),
        "dtype": key_of(doubled(np.arange(6, dtype=np.int32))),
        "name": key_of(doubled(x, name="tripling")),
        "donation": key_of(doubled(x, donate=True)),
        "fast": key_of(module, fast_compile=True),
        "option": key_of(module, compiler_options={"xla_cpu_enable_fast_math": True}),
        "value": key_of(module, compiler_options={"xla_cpu_enable_fast_math": False}),
        "device": key_of(module, devices=client.devices()[1:2]),
        "devices": key_of(module, devices=client.devices()[:2], num_partitions=2),
        "order": key_of(module, devices=client.devices()[1::-1], num_partitions=2),
        "threads": key_of(module, threads=5),
    }
    changes = {
        "processor": ("_processor", lambda: "another one"),
        "release": ("_MAKER", "weft 1, jaxlib 9.9.9"),
    }
    for name, (attribute, value) in changes.items():
        with monkeypatch.context() as other:
            other.setattr(cache_keys, attribute, value)
            cache_keys._environment_parts.cache_clear()
            found[name] = key_of(module)
    monkeypatch.setenv("XLA_SOMETHING", "1")
    cache_keys._environment_parts.cache_clear()
    found["environment"] = key_of(module)
    monkeypatch.delenv("XLA_SOMETHING")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", ".5")
    cache_keys._environment_parts.cache_clear()
    assert len(set(found.values())) == len(found)
    assert key_of(module) == found["the same"]  # what a client may take of memory changes nothing


def test_a_processor_is_what_the_kernel_says_it_is():
    text = cache_keys._processor()
    assert text == cache_keys._processor() and sys.platform in text
    if os.path.exists("/proc/cpuinfo"):
        assert "MHz" not in text and re.search("flags|Features|isa", text)


# ---- across processes ----------------------------------------------------------------------------

SCRIPT = """
    import json, os, sys
    import weft, weft.numpy as jnp, weft.lax as lax
    from weft.runtime.backends import disk_cache
    from weft.sharding import NamedSharding, PartitionSpec as P

    found = []
    def note(*values):
        found.extend(jnp.asarray(v).tolist() for v in weft.tree_util.tree_leaves(values))

    def loss(params, x):
        for w, b in params:
            x = jnp.tanh(x @ w + b)
        return jnp.mean(x * x)

    params = [(jnp.ones((4, 4)) / (i + 2), jnp.zeros(4)) for i in range(3)]
    x = jnp.arange(8.0).reshape(2, 4) / 7
    note(weft.jit(weft.value_and_grad(loss))(params, x))
    note(weft.jit(lambda x: lax.scan(lambda c, r: (c + jnp.sin(r), c * r), x[0], x))(x))
    note(weft.jit(lambda p, x: lax.cond(p, jnp.sort, jnp.cos, x))(True, x))
    note(weft.jit(lambda k: weft.random.normal(k, (3,)))(weft.random.key(1)))
    note(weft.jit(weft.vmap(lambda r: jnp.cumsum(r)[::-1]))(x))
    mesh = weft.make_mesh((4, 2), ("a", "b"))
    split = weft.device_put(jnp.arange(64.0).reshape(8, 8), NamedSharding(mesh, P("a", "b")))
    note(weft.jit(lambda y: (y @ y.T, y.sum(0)))(split))
    body = lambda y: lax.psum(y, "a") * lax.axis_index("b")
    specs = {"in_specs": P("a", "b"), "out_specs": P(None, "b")}
    note(weft.jit(weft.shard_map(body, mesh=mesh, **specs))(split))
    donating = weft.jit(lambda y: y + 1, donate_argnums=(0,))
    given = weft.device_put(jnp.zeros((8, 8)), NamedSharding(mesh, P("a", "b")))
    note(donating(given), given.is_deleted())
    info = disk_cache.program_cache_info()
    names = sorted(os.listdir(info.directory))
    print(json.dumps([found, names, info.hits, info.misses]))
"""


def run_script(folder, cache_dir, name, seed, lines, **environment):
    """What the script says in a process of its own, started there, from a file of that name."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("\n" * lines + textwrap.dedent(SCRIPT))
    settings = dict(os.environ, WEFT_CACHE_DIR=str(cache_dir), PYTHONHASHSEED=seed, **environment)
    settings.pop("WEFT_CHECK_JAXPRS", None)
    done = subprocess.run(
        [sys.executable, str(path)], cwd=folder, env=settings, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done, json.loads(done.stdout)


def test_keys_are_the_same_in_every_process(tmp_path):
    # A relative path is taken from where the process starts.
    _, first = run_script(tmp_path / "one", "../kept", "script.py", "1", 0)
    # Where this XLA lacks an option that is tried, one program is looked for a second time.
    assert first[2] == 0 and first[3] - (len(first[1]) - 1) in (0, 1) and first[3] > 5
    done, second = run_script(tmp_path / "two", tmp_path / "kept", "other.py", "2", 5)
    assert second[0] == first[0] and second[1] == first[1]
    again = first[3] - (len(first[1]) - 1)
    assert (second[2], second[3]) == (first[3] - again, again)
    assert done.stderr == ""
    _, third = run_script(tmp_path / "two", tmp_path / "kept", "other.py", "2", 5, XLA_OTHER="1")
    assert third[0] == first[0] and third[2] == 0


def test_off_in_a_process(tmp_path):
    code = "import weft; print(weft.jit(lambda x: x + 1)(1.0))"
    settings = dict(os.environ, WEFT_CACHE_DIR="", HOME=str(tmp_path), XDG_CACHE_HOME="")
    python_output("-c", code, env=settings)
    assert list(tmp_path.iterdir()) == []


def test_on_by_default(tmp_path):
    code = "import weft; print(weft.jit(lambda x: x + 1)(1.0))"
    settings = dict(os.environ, HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"))
    del settings["WEFT_CACHE_DIR"]
    python_output("-c", code, env=settings)
    assert list((tmp_path / "cache" / "weft" / "programs").glob("*.program"))
