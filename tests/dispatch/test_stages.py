"""The stages of compiling by hand: what each one says of the program, and that it is the program
that `jit` runs."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from compilations import counted_compilations
from weft import lax
from weft.errors import (
    DTypeError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.layout import Format, Layout
from weft.runtime.backends.backend import MemoryStats
from weft.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

pytestmark = pytest.mark.fast

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
DEVICES = weft.devices()
MESH = weft.make_mesh((4, 2), ("i", "j"))
ROWS = NamedSharding(MESH, PartitionSpec("i"))
ON = SingleDeviceSharding


def struct(*shape, dtype=np.float32, **options):
    return weft.ShapeDtypeStruct(shape, dtype, **options)


# ---- what the stages say -------------------------------------------------------------------------


def layer(params, x, n, *, scale):
    return {"y": (x @ params["w"] + params["b"]) * scale * n, "n": x - 1}


def layer_stages():
    f = weft.jit(layer, static_argnums=2, donate_argnames="x")
    params = {"w": struct(4, 5), "b": struct(5)}
    traced = f.trace(params, struct(3, 4), 2, scale=3.0)
    lowered = traced.lower()
    return traced, lowered, lowered.compile()


def test_every_stage_describes_arguments_and_results_without_static_ones():
    for stage in layer_stages():
        assert stage.fun_name == "layer"
        (params, x), kwargs = stage.args_info
        assert params["w"].shape == (4, 5) and params["w"].dtype == np.float32
        assert x.donated and not params["b"].donated
        assert kwargs["scale"].type.weak_type and not kwargs["scale"].donated
        assert stage.donate_argnums == (2,)
        assert stage.in_tree == weft.tree.structure((({"w": 0, "b": 0}, 0), {"scale": 0}))
        assert stage.out_tree == weft.tree.structure({"y": 0, "n": 0})
        assert [t.shape for t in weft.tree.leaves(stage.in_avals)] == [(5,), (4, 5), (3, 4), ()]
        assert stage.out_avals["y"].shape == (3, 5)
        assert stage.out_info == {"y": struct(3, 5), "n": struct(3, 4)}
        assert type(stage).__name__ in repr(stage) and "layer" in repr(stage)


def test_a_compiled_program_computes_what_the_function_does():
    *_, compiled = layer_stages()
    params = {"w": np.ones((4, 5), np.float32), "b": np.arange(5, dtype=np.float32)}
    for call in (
        lambda x: compiled(params, x, 2, scale=3.0),
        lambda x: compiled(params, x, scale=3.0),
        lambda x: compiled(params, x, scale=np.float32(3.0)),
        lambda x: compiled.call(params, x, n=2, scale=3.0),
    ):
        out = call(wnp.array(X))
        expected = (X.astype(np.float64) @ params["w"] + params["b"]) * 6.0
        np.testing.assert_allclose(out["y"], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(out["n"], X - 1)


def test_the_texts_of_a_lowered_program():
    def double(x):
        return x * 2

    lowered = weft.jit(double).lower(X)
    assert "stablehlo.multiply" in lowered.as_text()
    assert lowered.as_text("stablehlo") == lowered.as_text()
    assert "test_stages.py" in lowered.as_text(debug_info=True)
    hlo = lowered.as_text(dialect="hlo")
    assert hlo.startswith("HloModule jit_double") and "f32[3,4]{1,0} multiply" in hlo
    assert hlo == lowered.compiler_ir("hlo").as_hlo_text() and "test_stages.py" not in hlo
    with_lines = lowered.as_text("hlo", debug_info=True)
    assert "test_stages.py" in with_lines and 'op_name="jit(double)/mul"' in with_lines
    assert lowered.compiler_ir().operation.name == "builtin.module"
    assert "multiply" in lowered.compiler_ir("hlo").as_hlo_text()
    assert "sharding" in weft.jit(double).lower(struct(8, 8, sharding=ROWS)).as_text("hlo")
    with pytest.raises(WeftValueError, match="StableHLO or in HLO") as caught:
        lowered.as_text("mhlo")
    assert lowered.as_text(**caught.value.fix.data) == lowered.as_text()


def test_costs_before_and_after_compiling():
    lowered = weft.jit(lambda x, y: x @ y).lower(struct(16, 32), struct(32, 64))
    operations = 2 * 16 * 32 * 64
    moved = 4 * (16 * 32 + 32 * 64 + 16 * 64)
    assert lowered.cost_analysis()["flops"] == operations
    assert lowered.cost_analysis()["bytes accessed"] == moved
    assert lowered.compile().cost_analysis()["flops"] == operations


def test_memory_has_named_fields_and_units():
    def f(x):
        return lax.sort(x * 2)[:8]

    stats = weft.jit(f).lower(struct(1 << 14)).compile().memory_analysis()
    assert stats.argument_size_in_bytes == 4 << 14 and stats.output_size_in_bytes == 32
    assert stats.temp_size_in_bytes >= 4 << 14 and stats.alias_size_in_bytes == 0
    assert stats.peak_memory_in_bytes >= stats.argument_size_in_bytes
    assert stats.host_temp_size_in_bytes == 0
    assert "arguments=64.0 KiB, outputs=32 B, aliased=0 B" in repr(stats)
    assert "host" not in repr(stats)
    assert "host_temporaries=1.0 MiB" in repr(MemoryStats(1, 2, 3, 4, 5, 6, 0, 0, 1 << 20))


def test_the_runtimes_own_object():
    compiled = weft.jit(lambda x: x).lower(X).compile()
    assert "HloModule" in compiled.runtime_executable().hlo_modules()[0].to_string()


def test_a_program_compiled_by_hand_is_the_one_that_calls_run(monkeypatch):
    found = counted_compilations(monkeypatch)
    f = weft.jit(lambda x, unread: wnp.cumsum(x) - 3.0)
    f.lower(X, X).compile()
    assert len(found) == 1
    f(X, X)
    f.trace(X, X).lower().compile()
    assert len(found) == 1


def test_unread_arguments_are_dropped_unless_they_are_kept():
    def f(x, y):
        return x + 1

    for keep, inputs in ((False, 1), (True, 2)):
        lowered = weft.jit(f, keep_unused=keep).lower(X, struct(7))
        main = next(line for line in lowered.as_text().splitlines() if "@main" in line)
        assert main.count("%arg") == inputs
        compiled = lowered.compile()
        np.testing.assert_array_equal(compiled(X, np.zeros(7, np.float32)), X + 1)
        assert len(compiled.input_formats[0]) == len(compiled.input_shardings[0]) == 2
        with pytest.raises(WeftTypeError, match=r"y \(another shape\)"):
            compiled(X, X)


# ---- options and platforms -----------------------------------------------------------------------


def test_compiler_options_are_merged_with_those_of_jit():
    f = weft.jit(lambda x: x + 1, compiler_options={"xla_backend_optimization_level": "0"})
    lowered = f.lower(X)
    np.testing.assert_array_equal(lowered.compile({"xla_cpu_enable_fast_math": False})(X), X + 1)
    with pytest.raises(WeftValueError, match="no such compiler option") as caught:
        lowered.compile(compiler_options={"xla_no_such_option": 1})
    assert caught.value.fix.data["option"] == "xla_no_such_option"
    with pytest.raises(WeftValueError, match="no such compiler option"):
        weft.jit(lambda x: x, compiler_options={"xla_no_such_option": 1}).lower(X).compile()
    # The option of the stage wins over that of jit.
    bad = weft.jit(lambda x: x - 1, compiler_options={"xla_backend_optimization_level": "many"})
    bad.lower(X).compile({"xla_backend_optimization_level": "1"})


def test_lowering_for_another_platform():
    traced = weft.jit(lambda x: x + 1).trace(X)
    for name in ("cuda", "gpu", ["tpu"]):
        lowered = traced.lower(lowering_platforms=name)
        assert "stablehlo.add" in lowered.as_text()
        with pytest.raises(WeftValueError, match="cannot be compiled here"):
            lowered.compile()
    assert traced.lower(lowering_platforms=("cpu",)).as_text() == traced.lower().as_text()
    for wrong, error in (
        ("abacus", WeftValueError),
        ((), WeftValueError),
        (("cpu", "cuda"), WeftNotImplementedError),
    ):
        with pytest.raises(error, match="platform") as caught:
            traced.lower(lowering_platforms=wrong)
        traced.lower(**caught.value.fix.data)


# ---- programs of every kind ----------------------------------------------------------------------


def closed_over():
    table = wnp.array(X)
    return lambda x: x * table + wnp.array(X)


PROGRAMS = {
    "closing over arrays": closed_over(),
    "a gradient": weft.grad(lambda x: wnp.sum(wnp.sin(x) ** 2)),
    "a vmap": weft.vmap(lambda row: row / wnp.linalg.norm(row)),
    "a loop": lambda x: lax.scan(lambda c, row: (c + row, c * row), wnp.zeros(4), x),
    "a condition": lambda x: lax.cond(x[0, 0] < 0, lambda x: x + 1, lambda x: x - 1, x),
    "nested jit": lambda x: weft.jit(lambda y: weft.jit(wnp.exp)(y) + 1)(x),
    "a random key": lambda x: x + weft.random.normal(weft.random.key(3), (3, 4)),
    "no result": lambda x: None,
    "a constant": lambda x: 1.0,
    "a callback": lambda x: weft.pure_callback(lambda v: np.asarray(v) * 2, struct(3, 4), x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_every_kind_give_what_the_function_gives(name):
    f = PROGRAMS[name]
    compiled = weft.jit(f).lower(struct(3, 4)).compile()
    for _ in range(2):
        got, expected = compiled(X), f(wnp.array(X))
        assert weft.tree.structure(got) == weft.tree.structure(expected)
        for a, b in zip(weft.tree.leaves(got), weft.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_effects_happen_at_each_call_of_the_compiled_program(capfd):
    def f(x):
        weft.debug.print("total {}", wnp.sum(x))
        return x

    compiled = weft.jit(f).lower(struct(2)).compile()
    assert "total" not in capfd.readouterr().out
    compiled(np.ones(2, np.float32))
    compiled(np.ones(2, np.float32))
    weft.effects_barrier()
    assert capfd.readouterr().out.count("total 2.0") == 2


@pytest.mark.parametrize("simulated", [False, True])
def test_shard_map_and_simulated_meshes(simulated):
    f = weft.shard_map(
        lambda x: lax.psum(x, "i"),
        mesh=MESH,
        in_specs=PartitionSpec("i"),
        out_specs=PartitionSpec(),
    )
    x = np.arange(8, dtype=np.float32)
    if simulated:
        with weft.simulate(MESH):
            out = weft.jit(f).lower(x).compile()(x)
    else:
        out = weft.jit(f).lower(x).compile()(x)
    np.testing.assert_array_equal(out, x.reshape(4, 2).sum(0))


def test_results_are_searched_for_nan_where_that_is_asked_for_at_compilation_and_at_the_call():
    lowered = weft.jit(lambda x, *, y: wnp.log(x) + y).lower(X, y=X)
    positive, unsearched = np.abs(X) + 1, lowered.compile()
    with weft.debug_nans():
        compiled = lowered.compile()
        np.testing.assert_allclose(compiled(positive, y=X), np.log(positive) + X, rtol=1e-5)
        with pytest.raises(weft.errors.NonFiniteError, match="log"):
            compiled(-positive, y=X)
        assert np.isnan(np.asarray(unsearched(-positive, y=X))).all()
    assert np.isnan(np.asarray(compiled(-positive, y=X))).all()


def test_placed_functions_are_compiled_for_their_places():
    there = DEVICES[2]
    f = weft.jit(lambda x: x + 1, in_shardings=DEVICES[1], out_shardings=there)
    compiled = f.lower(X).compile()
    out = compiled(X)
    assert out.device == there
    assert compiled.output_shardings == ON(there)
    assert compiled.input_shardings == ((ON(DEVICES[1]),), {})
    np.testing.assert_array_equal(out, X + 1)


# ---- formats -------------------------------------------------------------------------------------


def test_formats_have_an_explicit_layout_and_the_sharding():
    compiled = weft.jit(lambda x, *, y: {"out": x @ y, "s": 1.0}).lower(X, y=X.T).compile()
    arg_formats, kwarg_formats = compiled.input_formats
    row_major = Format(Layout((0, 1)), ON(DEVICES[0]))
    assert arg_formats == (row_major,) and kwarg_formats == {"y": row_major}
    assert compiled.output_formats == {"out": row_major, "s": Format(Layout(()), ON(DEVICES[0]))}
    assert compiled.output_formats["out"] == compiled(X, y=X.T)["out"].format


def test_formats_over_devices_and_of_keys():
    compiled = weft.jit(lambda x: x * 2).lower(struct(8, 8, sharding=ROWS)).compile()
    assert compiled.input_formats == ((Format(Layout((0, 1)), ROWS),), {})
    assert compiled.output_formats.layout == Layout((0, 1))
    keys = weft.random.split(weft.random.key(0), 6).reshape(2, 3)
    compiled = weft.jit(lambda k: k).lower(keys).compile()
    assert compiled.output_formats.layout == Layout((0, 1))
    np.testing.assert_array_equal(weft.random.key_data(compiled(keys)), weft.random.key_data(keys))


def test_a_layout_of_a_struct_is_the_layout_of_the_argument():
    columns = Format(Layout((1, 0)), ON(DEVICES[0]))
    compiled = weft.jit(lambda x: x + 1).lower(struct(3, 4, sharding=columns)).compile()
    assert compiled.input_formats == ((columns,), {})
    np.testing.assert_array_equal(compiled(X), X + 1)
    np.testing.assert_array_equal(compiled(weft.device_put(X, columns)), X + 1)
    from_array = weft.jit(lambda x: x + 1).lower(weft.device_put(X, columns)).compile()
    assert from_array.input_formats == ((columns,), {})


# ---- under transformations -----------------------------------------------------------------------


def test_a_function_can_be_compiled_inside_of_a_trace():
    seen = []

    def f(x):
        compiled = weft.jit(lambda y: y * 2).lower(x).compile()
        seen.append(compiled(X))  # Known values are computed at once.
        return x + seen[-1]

    np.testing.assert_array_equal(weft.jit(f)(X), 3 * X)
    np.testing.assert_array_equal(seen[0], 2 * X)


def test_what_closes_over_a_traced_value_cannot_be_lowered():
    def f(x):
        traced = weft.jit(lambda y: x * y).trace(X)
        assert traced.out_info.shape == (3, 4)
        with pytest.raises(WeftTypeError, match="closes over a traced value") as caught:
            traced.lower()
        assert caught.value.fix.kind == "argument"
        return weft.jit(lambda x, y: x * y).lower(x, X).compile()(X, X) + x

    np.testing.assert_allclose(weft.jit(f)(X), X * X + X, rtol=1e-6)


# ---- ShapeDtypeStruct ----------------------------------------------------------------------------


def test_a_struct_shows_what_is_not_by_default():
    assert repr(struct(2, 3)) == "ShapeDtypeStruct(shape=(2, 3), dtype=f32)"
    columns = Format(Layout((1, 0)), ROWS)
    text = repr(struct(8, 3, sharding=columns, weak_type=True))
    assert "weak_type=True" in text and f"sharding={ROWS}" in text and "(1, 0)" in text
    assert "layout" not in repr(struct(8, 3, sharding=Format(Layout((0, 1)), ROWS)))


def test_the_forms_of_a_sharding_in_a_struct():
    assert struct(8, sharding=DEVICES[1]).sharding == ON(DEVICES[1])
    assert struct(8, sharding=ROWS).format == Format(None, ROWS)
    both = struct(8, 8, sharding=Format(Layout((1, 0)), ROWS))
    assert both.sharding == ROWS and both.layout == Layout((1, 0))
    with weft.use_mesh(MESH):
        assert struct(8, sharding=PartitionSpec("i")).sharding == ROWS
    assert struct(8).sharding is None and struct(8).layout is None


def test_structs_are_compared_by_what_they_say():
    row_major = struct(8, 8, sharding=Format(Layout((0, 1)), ROWS))
    columns = struct(8, 8, sharding=Format(Layout((1, 0)), ROWS))
    assert row_major == struct(8, 8, sharding=ROWS) != columns
    assert hash(row_major) == hash(struct(8, 8, sharding=ROWS))
    assert struct(2) != struct(2, weak_type=True)
    assert len({struct(2), struct(2), struct(3)}) == 2


def test_updating_a_struct():
    columns = struct(8, 8, sharding=Format(Layout((1, 0)), ROWS))
    assert columns.update(dtype="int32").format == columns.format
    assert columns.update(sharding=None, shape=(3,)) == struct(3)
    assert struct(2).update(weak_type=True).weak_type
    with pytest.raises(WeftTypeError, match="no field 'rank'"):
        struct(2).update(rank=3)
    with pytest.raises(ShapeError, match="layout"):
        columns.update(shape=(8,))


def test_structs_like_arrays():
    assert weft.ShapeDtypeStruct.like(wnp.array(X)) == struct(3, 4)
    columns = Format(Layout((1, 0)), ON(DEVICES[1]))
    like = weft.ShapeDtypeStruct.like(weft.device_put(X, columns))
    assert like == struct(3, 4, sharding=columns)
    assert weft.ShapeDtypeStruct.like(like) == like
    assert weft.ShapeDtypeStruct.like(wnp.asarray(1.0)).weak_type == wnp.asarray(1.0).weak_type


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: struct(6, sharding=ROWS), ShapeError, "dimension 0"),
        (lambda: struct(8, sharding=Format(Layout((1, 0)), ROWS)), ShapeError, "layout"),
        (lambda: struct(8, sharding=PartitionSpec("i")), WeftValueError, "no mesh"),
        (lambda: struct(8, sharding=Format(Layout.AUTO, ROWS)), WeftValueError, "AUTO"),
        (lambda: struct(8, sharding="rows"), WeftTypeError, "sharding"),
        (lambda: weft.ShapeDtypeStruct(8, np.float32), WeftTypeError, "shape"),
        (lambda: struct(-1), WeftTypeError, "shape"),
        (lambda: struct(2.5), WeftTypeError, "shape"),
        (lambda: struct(2, dtype="no such dtype"), DTypeError, "no such dtype"),
    ],
)
def test_wrong_structs_are_refused_where_they_are_built(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_a_wrong_sharding_of_an_argument_names_the_argument():
    class Foreign:
        shape, dtype, sharding = (6,), np.dtype("float32"), ROWS
        type = struct(6).type

    with pytest.raises(ShapeError, match=r"p\['w'\]"):
        weft.jit(lambda p: p["w"]).lower({"w": Foreign()})


# ---- eval_shape ----------------------------------------------------------------------------------


def test_eval_shape_knows_weak_types_and_shardings():
    def f(x, y):
        return {"in": x, "rows": lax.with_sharding_constraint(y * 2, ROWS), "sum": x + y}

    columns = NamedSharding(MESH, PartitionSpec(None, "j"))
    out = weft.eval_shape(f, struct(8, 8, sharding=columns), struct(8, 8))
    assert out["in"].sharding == columns and out["rows"].sharding == ROWS
    assert out["sum"] == struct(8, 8)
    assert weft.eval_shape(lambda: 1.0) == struct(weak_type=True)
    assert weft.eval_shape(lambda x: x, weft.device_put(X, DEVICES[1])).sharding == ON(DEVICES[1])
    assert weft.eval_shape(lambda x: x, wnp.array(X)) == struct(3, 4)
    inner = weft.jit(lambda x: x + 1, out_shardings=ROWS)
    assert weft.eval_shape(lambda x: inner(x), struct(8, 8)).sharding == ROWS
    assert weft.jit(f).trace(struct(8, 8), struct(8, 8)).out_info["rows"].sharding == ROWS


def test_eval_shape_takes_structs_into_what_it_gives():
    first = weft.eval_shape(lambda x: wnp.sin(x), struct(3))
    assert weft.eval_shape(lambda x: x[None], first) == struct(1, 3)


def test_a_jitted_function_has_what_was_set_on_the_function_and_the_types_of_its_results():
    def f(x):
        return x + 1.0

    f.note = "text"
    jitted = weft.jit(f)
    assert jitted.note == weft.jit(jitted).note == "text" and not hasattr(jitted, "other")
    assert jitted.eval_shape(wnp.ones(3)).shape == (3,)
