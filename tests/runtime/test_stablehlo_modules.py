"""Modules, functions, calls, locations and attributes of the generated programs."""

from __future__ import annotations

import numpy as np
import pytest

from at_once import together
from stablehlo_programs import check, module_of, sample, type_of
from weft.errors import WeftError, WeftTypeError
from weft.runtime import client, stablehlo
from weft.runtime.backends.backend import CompileOptions
from weft.runtime.stablehlo import Module, hlo, ir, op, op1
from weft.runtime.stablehlo.attributes import to_attribute

# ---- calls ---------------------------------------------------------------------------------------


def test_functions_call_each_other_under_unique_names():
    x = sample("f4")
    kind = stablehlo.array_type_to_ir(type_of(x))
    module = Module("calls")
    names = []
    for make in (stablehlo.sine, stablehlo.negate):
        with module.function("inner", [kind], [kind]) as inner:
            inner.return_([make(inner.arguments[0])])
        names.append(inner.name)
    assert names == ["inner", "inner_0"]
    with module.function("main", [kind], [kind], public=True) as main:
        value = main.arguments[0]
        for name in names:
            (value,) = stablehlo.call(name, [value], [kind])
        main.return_([value])
    executable = client.backend().compile(module.ir, CompileOptions(), [type_of(x)])
    (out,) = executable.run([client.backend().put(x, type_of(x))])
    np.testing.assert_allclose(client.backend().to_numpy(out), -np.sin(x), rtol=1e-6)


def test_a_function_may_be_written_while_another_is_open():
    x = sample("f4")
    kind = stablehlo.array_type_to_ir(type_of(x))
    module = Module("nested")
    with module.function("main", [kind], [kind], public=True) as main:
        before = stablehlo.sine(main.arguments[0])
        with module.function("inner", [kind], [kind]) as inner:
            inner.return_([stablehlo.negate(inner.arguments[0])])
        main.return_(stablehlo.call(inner.name, [before], [kind]))
    module.verify()
    text = module.text()
    assert text.index("stablehlo.sine") < text.index("func.func private @inner")


def test_optimization_barrier_and_custom_call():
    x = sample("f4", (2, 3))
    check(lambda v: stablehlo.optimization_barrier([v, v]), [x], [x, x], 0)

    def build(v):
        return stablehlo.custom_call(
            "LayoutConstraint", [v], [v.type], operand_layouts=[(0, 1)], result_layouts=[(0, 1)]
        )

    check(build, [x], [x], 0)
    text = module_of(build, [x], [x]).text()
    assert "@LayoutConstraint" in text and "dense<[0, 1]> : tensor<2xindex>" in text


def test_custom_call_attributes():
    x = sample("f4", (3,))

    def build(v):
        return stablehlo.custom_call(
            "somewhere",
            [v],
            [v.type],
            backend_config={"uplo": np.uint8(76), "scale": 0.5, "names": ["a", "b"], "on": True},
            has_side_effect=True,
            operand_output_aliases={0: 0},
        )

    module = module_of(build, [x], [x])
    module.verify()
    text = module.text()
    for part in ("uplo = 76 : ui8", "scale = 5.000000e-01 : f64", '["a", "b"]', "on = true"):
        assert part in text
    assert "api_version = 4" in text and "has_side_effect = true" in text
    assert "output_operand_aliases" in text


def test_attributes_from_python_values():
    shown = {
        "7 : i64": 7,
        "true": True,
        '"text"': "text",
        "[1, 2]": [1, 2],
        "dense<[1, 2]> : tensor<2xi32>": np.array([1, 2], np.int32),
        "1.000000e+00 : f32": np.float32(1),
        "3 : i16": np.int16(3),
        "{a = 1 : i64}": {"a": 1},
    }
    for text, value in shown.items():
        assert str(to_attribute(value)) == text
    with pytest.raises(WeftTypeError, match="cannot be an attribute"):
        to_attribute(object())
    with pytest.raises(WeftTypeError, match="complex number"):
        to_attribute(np.complex64(1))


def test_rules_written_with_the_generated_classes_share_insertion_point_and_location():
    x = sample("f4", (3,))

    def build(v):
        with stablehlo.location("user.py", 12, "loss", "jit(f)/mine"):
            (doubled,) = hlo.AddOp(v, v).results
            return op1("stablehlo.negate", (doubled,), v.type)

    check(build, [x], -2 * x)
    text = module_of(build, [x], [x]).text(debug_info=True)
    assert 'loc("user.py":12:0)' in text and '"loss"' in text and '"jit(f)/mine"' in text


def test_locations_reach_the_compiled_program():
    x = sample("f4", (3,))

    def build(v):
        with stablehlo.location("user.py", 12, "loss", "jit(f)/mine"):
            return stablehlo.sine(v)

    module = module_of(build, [x], [x])
    text = client.backend().compile(module.ir, CompileOptions(), [type_of(x)]).as_text()
    assert 'op_name="jit(f)/mine"' in text and '"user.py"' in text and "line=12" in text
    assert stablehlo.location("a.py", 1, "f") is stablehlo.location("a.py", 1, "f")


# ---- modules -------------------------------------------------------------------------------------


def test_module_text_attributes_and_bytecode():
    x = sample("f4", (3,))
    kind = stablehlo.array_type_to_ir(type_of(x))
    donor = {"jax.buffer_donor": to_attribute(True)}
    module = Module("jit(f)", {"test.note": to_attribute("hello")}, num_partitions=2)
    with module.function(
        "main",
        [kind, kind],
        [kind],
        public=True,
        arg_attributes=[None, donor],
        result_attributes=[{"mhlo.layout_mode": to_attribute("default")}],
    ) as main:
        main.return_([stablehlo.add(*main.arguments)])
    module.verify()
    text = module.text()
    for part in (
        "module @jit_f_",
        'test.note = "hello"',
        "mhlo.num_partitions = 2 : i32",
        "%arg1: tensor<3xf32> {jax.buffer_donor = true}",
        '-> (tensor<3xf32> {mhlo.layout_mode = "default"})',
    ):
        assert part in text
    assert str(stablehlo.parse(module.bytecode())) == str(module.ir)
    assert str(stablehlo.parse(text)) == str(module.ir)


def test_symbols_are_legal_and_unique():
    module = Module("m")
    assert module.symbol("f") == "f" and module.symbol("f") == "f_0"
    assert module.symbol("f") == "f_1" and module.symbol("<lambda>") == "_lambda_"
    assert module.symbol("3d") == "_3d" and module.symbol("") == "_"


def test_an_invalid_module_names_the_operation_and_its_line():
    x = sample("f4", (3,))

    def build(v):
        with stablehlo.location("user.py", 99, "model"):
            wrong = stablehlo.tensor_type((4,), "f4")
            return op1("stablehlo.add", (v, v), wrong)

    module = module_of(build, [x], [np.zeros(4, np.float32)])
    for attempt in (
        module.verify,
        lambda: client.backend().compile(module.ir, CompileOptions(), [type_of(x)]),
    ):
        with pytest.raises(WeftError, match="stablehlo.add") as caught:
            attempt()
        assert "user.py" in str(caught.value) and "99" in str(caught.value)


def test_emission_recovers_from_an_error_in_a_body():
    x = sample("f4", (3,))
    kind = stablehlo.array_type_to_ir(type_of(x))
    module = Module("m")
    with pytest.raises(ZeroDivisionError), module.function("broken", [kind], [kind]) as function:
        op("stablehlo.case", [], [], None, [((), lambda _: 1 / 0)])
        function.return_([])
    check(stablehlo.negate, [x], -x)


def test_threads_build_and_compile_at_the_same_time():
    # XLA works on a module without holding the interpreter's lock, while others are emitted.
    def build(v, salt):
        for step in range(60):
            with stablehlo.location(f"file{salt}.py", step, "f"):
                v = stablehlo.add(v, stablehlo.constant(np.float32(salt + step / 64)))
        return stablehlo.broadcast_in_dim(v, (salt % 7 + 1, 3), ())

    def work(seed):
        for count in range(8):
            salt = 1 + seed * 8 + count
            expected = sum(salt + step / 64 for step in range(60))
            full = np.full((salt % 7 + 1, 3), expected, np.float32)
            check(lambda v, salt=salt: build(v, salt), [np.float32(0)], full, 1e-5)

    together(work, 6)


def test_every_public_name_is_there():
    for name in stablehlo.__all__:
        assert getattr(stablehlo, name) is not None
    assert stablehlo.ir is ir and stablehlo.hlo is hlo


def test_chlo_operations_that_the_module_lists_are_functions():
    listed = stablehlo.__doc__.partition("compile on the CPU")[2].partition(".")[0]
    names = listed.partition("functions:")[2].split()
    assert len(names) > 20
    for name in names:
        assert name in stablehlo.__all__
