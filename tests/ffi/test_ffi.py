"""weft.ffi: what goes into compiled handlers and comes out, transformations, what is refused."""

from __future__ import annotations

import ctypes
import enum
import os

import ml_dtypes
import numpy as np
import pytest

import ffi_cases
import weft
import weft.numpy as wnp
from ffi_cases import Struct, call, kernels, note, noted, root, same, scaled_sum
from processes import python_output
from source_files import ROOT
from ways import WAYS_AND_TWICE
from weft import errors, export, ffi, lax, random
from weft.layout import Format, Layout

pytestmark = pytest.mark.fast
ffi_cases.needs(".c")
LIBRARY = kernels()

NUMBERS = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)


# ---- values --------------------------------------------------------------------------------------

DTYPES = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.complex64, np.complex128, ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e3m4, ml_dtypes.float8_e4m3,
    ml_dtypes.float8_e4m3b11fnuz, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn, ml_dtypes.int4, ml_dtypes.uint4,
    ml_dtypes.int2, ml_dtypes.uint2,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS_AND_TWICE)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_dtypes_go_through(dtype, way):
    x = (NUMBERS * 1.5).clip(-2, 1).astype(dtype)
    (found,) = way(same)(wnp.asarray(x, dtype=dtype))
    assert found.dtype == dtype
    np.testing.assert_array_equal(np.asarray(found).view(np.uint8), x.view(np.uint8))


@pytest.mark.parametrize("way", WAYS_AND_TWICE)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4)], ids=str)
def test_shapes_go_through(shape, way):
    x = wnp.arange(float(np.prod(shape))).reshape(shape)
    y = wnp.ones((2,), wnp.int32)
    found = way(same)(x, y)
    assert isinstance(found, tuple) and [a.shape for a in found] == [shape, (2,)]
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], y)


def test_results_have_the_structure_that_was_asked_for():
    x = wnp.ones(3)
    out = Struct((3,), np.float32)
    assert type(call("Same", [out], x)) is list and type(call("Same", (out,), x)) is tuple
    assert call("Same", out, x).shape == (3,)
    found = call("Same", {"a": out, "b": (out, None)}, x, 2 * x)
    np.testing.assert_array_equal(found["b"][0], 2 * np.ones(3))
    assert found["b"][1] is None


def test_python_and_numpy_numbers_are_operands():
    found = call("Same", (Struct((), np.float32), Struct((), np.int32)), 1.5, np.int32(4))
    assert [float(x) for x in found] == [1.5, 4.0]
    assert not found[0].weak_type


# ---- attributes ----------------------------------------------------------------------------------

# The numbers of XLA_FFI_DataType in XLA's c_api.h.
CODES = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8,
    "uint64": 9, "float32": 11, "float64": 12,
}  # fmt: skip


def described(**attributes):
    found = call("Describe", Struct((2000,), np.uint8), attributes=attributes)
    return np.asarray(found).tobytes().rstrip(b"\0").decode().splitlines()


def line(name, kind, value, dtype):
    value = np.asarray(value, dtype)
    return f"{name} {kind} {CODES[value.dtype.name]} {value.tobytes().hex()}"


@pytest.mark.parametrize("dtype", CODES)
def test_numbers_arrive_in_their_own_width(dtype):
    scalar = np.dtype(dtype).type(1)
    assert described(a=scalar) == [line("a", "scalar", 1, dtype)]
    if dtype != "bool":
        array = np.array([[1, 0, 3], [4, 5, 6]], dtype)
        assert described(a=array) == [line("a", "array", array, dtype)]
        assert described(a=np.zeros(0, dtype)) == [line("a", "array", [], dtype)]


class Color(enum.IntEnum):
    RED = 7


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (True, line("a", "scalar", True, bool)),
        (-3, line("a", "scalar", -3, "int64")),
        (2**63 - 1, line("a", "scalar", 2**63 - 1, "int64")),
        (Color.RED, line("a", "scalar", 7, "int64")),
        (0.1, line("a", "scalar", 0.1, "float64")),
        (-0.0, line("a", "scalar", -0.0, "float64")),
        (float("nan"), line("a", "scalar", float("nan"), "float64")),
        (float("-inf"), line("a", "scalar", float("-inf"), "float64")),
        ([1, 2], line("a", "array", [1, 2], "int64")),
        ((1.5, 2), line("a", "array", [1.5, 2], "float64")),
        (np.array(2.0), line("a", "array", 2.0, "float64")),
        (np.arange(3, dtype=">i4"), line("a", "array", [0, 1, 2], "int32")),
        ("grün", "a string grün"),
        ("", "a string "),
    ],
    ids=repr,
)
def test_values_of_python_as_attributes(value, wanted):
    assert described(a=value) == [wanted]


def test_attributes_are_sorted_and_nested():
    found = described(z=1, a={"y": "text", "x": {"w": np.float32(2)}}, empty={})
    assert found == [
        "a {", "x {", line("w", "scalar", 2, "float32"), "}", "y string text", "}",
        "empty {", "}", line("z", "scalar", 1, "int64"),
    ]  # fmt: skip


def test_no_cache_takes_one_attribute_for_another():
    values = [1, 1.0, True, np.float32(1), np.int32(1), [1], [1.0], "1", 0.0, -0.0]
    found = [described(a=value) for value in values]
    assert len({tuple(lines) for lines in found}) == len(values)
    traced = [str(weft.make_jaxpr(lambda v=v: described_flat(v))()) for v in values]
    assert "attributes={a=1.0}" in traced[1]


def described_flat(value):
    return call("Describe", Struct((9,), np.uint8), attributes={"a": value})


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, errors.WeftTypeError),
        ([1, "a"], errors.WeftTypeError),
        ([[1], [2, 3]], errors.WeftTypeError),
        (b"bytes", errors.WeftTypeError),
        (object(), errors.WeftTypeError),
        ({"inner": None}, errors.WeftTypeError),
        ({1: 2}, errors.WeftTypeError),
        (1j, errors.WeftTypeError),
        (np.float16(1), errors.DTypeError),
        (ml_dtypes.bfloat16(1), errors.DTypeError),
        (np.ones(2, np.complex64), errors.DTypeError),
        (np.ones(2, bool), errors.DTypeError),
        (2**63, errors.WeftValueError),
    ],
    # An object's text has its address, which differs between the processes that share the tests.
    ids=lambda value: repr(value).partition(" at 0x")[0],
)
def test_other_attributes_are_refused_by_name(value, error):
    with pytest.raises(error, match="the attribute 'scale") as caught:
        described(scale=value)
    if caught.value.fix.kind in ("cast", "uint64") and not np.iscomplexobj(value):
        fixed = np.asarray(value, caught.value.fix.data.get("dtype", "uint64"))
        assert described(scale=fixed if fixed.ndim else fixed[()])


def test_an_array_of_wefts_is_no_attribute():
    x = wnp.ones(2)
    for way in (lambda f: f, weft.jit):
        with pytest.raises(errors.WeftTypeError, match="'scale'") as caught:
            way(lambda x: described_scale(x))(x)
        assert caught.value.fix.kind == "operand"
    assert described(scale=np.asarray(x))


def described_scale(x):
    return call("Describe", Struct((9,), np.uint8), attributes={"scale": x})


# ---- layouts and shared memory -------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS_AND_TWICE)
@pytest.mark.parametrize("as_layout", [False, True])
def test_the_handler_gets_operands_in_its_layout(way, as_layout):
    x = NUMBERS[:4, :3]
    order = Layout((1, 0)) if as_layout else (1, 0)
    out = Struct((24,), np.float32)
    found = way(lambda x, y: call("Memory", out, x, y, input_layouts=[order, None]))(x, x)
    np.testing.assert_array_equal(found, np.concatenate([x.T.ravel(), x.ravel()]))
    columns = weft.device_put(wnp.asarray(x), Format(Layout((1, 0)), weft.devices()[0]))
    found = way(lambda x: call("Memory", Struct((12,), np.float32), x))(columns)
    np.testing.assert_array_equal(found, x.ravel())


@pytest.mark.parametrize("way", WAYS_AND_TWICE)
@pytest.mark.parametrize("given", [(1, 0), Layout((1, 0)), [(1, 0)], [Layout((1, 0))]], ids=repr)
def test_results_come_in_the_layout_of_the_handler(way, given):
    out = Struct((2, 3), np.float32)
    found = way(lambda: call("Counting", out, output_layouts=given))()
    np.testing.assert_array_equal(found, np.arange(6).reshape(3, 2).T)
    assert found.format.layout == Layout((0, 1))


@pytest.mark.parametrize("method", ["sequential", "broadcast_all", "expand_dims"])
def test_layouts_under_vmap(method):
    x = NUMBERS[:, :].reshape(5, 3, 2)

    def f(x):
        out = Struct((3, 2), np.float32)
        return call("Same", out, x, vmap_method=method, input_layouts=[(1, 0)],
                    output_layouts=(1, 0))  # fmt: skip

    np.testing.assert_array_equal(weft.vmap(f)(x), x)
    np.testing.assert_array_equal(weft.vmap(f, in_axes=2, out_axes=2)(x.transpose(1, 2, 0)),
                                  x.transpose(1, 2, 0))  # fmt: skip


def test_layouts_that_are_chosen_are_those_the_handler_reads():
    def f(x):
        return call("Memory", Struct((90000,), np.float32), x, input_layouts=[(1, 0)])

    compiled = weft.jit(f, in_shardings=Format(Layout.AUTO)).lower(Struct((300, 300), np.float32))
    (chosen,), _ = compiled.compile().input_formats
    assert chosen.layout == Layout((1, 0))


def twice(x, **how):
    out = (Struct(x.shape, x.dtype), Struct((), np.int32))
    return call("Twice", out, x, input_output_aliases={0: 0}, **how)


@pytest.mark.parametrize("way", WAYS_AND_TWICE)
def test_a_result_in_the_memory_of_an_operand(way):
    x = wnp.arange(5.0)
    y, shared = way(twice)(x)
    np.testing.assert_array_equal(y, 2 * np.arange(5))
    np.testing.assert_array_equal(x, np.arange(5))  # the user's array was copied
    assert int(shared) == 1

    def used_later(x):
        a = x + 1
        b, shared = twice(a)
        return a + b, shared

    np.testing.assert_array_equal(way(used_later)(x)[0], 3 * (np.arange(5) + 1))


def test_a_donated_operand_is_written_into():
    x = wnp.arange(5000.0)
    place = x.unsafe_buffer_pointer()
    y, shared = weft.jit(twice, donate_argnums=0)(x)
    assert int(shared) == 1 and x.is_deleted() and y.unsafe_buffer_pointer() == place
    np.testing.assert_array_equal(y, 2 * np.arange(5000))


@pytest.mark.parametrize("method", ["broadcast_all", "expand_dims", "legacy_vectorized"])
def test_shared_memory_under_vmap_of_an_operand_that_is_not_mapped(method):
    def f(x, y):
        out = (Struct(x.shape, x.dtype), Struct(y.shape, y.dtype))
        return call("Same", out, x, y, input_output_aliases={0: 0, 1: 1}, vmap_method=method)

    x, y = wnp.arange(3.0), wnp.ones((4, 3))
    found = weft.vmap(f, in_axes=(None, 0))(x, y)
    np.testing.assert_array_equal(found[0], np.tile(np.arange(3.0), (4, 1)))


# ---- transformations -----------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS_AND_TWICE)
@pytest.mark.parametrize(
    ("method", "calls"),
    [
        ("sequential", [1.0] * 6),
        ("sequential_unrolled", [1.0] * 6),
        ("expand_dims", [6.0]),
        ("broadcast_all", [6.0]),
        ("legacy_vectorized", [6.0]),
    ],
)
@pytest.mark.parametrize("scale_mapped", [False, True])
def test_vmap_methods(method, calls, scale_mapped, way):
    x, scale = NUMBERS, NUMBERS[::-1] if scale_mapped else NUMBERS[0]
    axes = (0, 0 if scale_mapped else None)
    f = way(weft.vmap(lambda x, s: scaled_sum(x, s, vmap_method=method), axes))
    wanted = (x.astype(np.float64) * scale).sum(axis=-1)
    with noted() as rows:
        np.testing.assert_allclose(f(x, scale), wanted, rtol=1e-5, atol=1e-6)
    assert rows == calls


def test_a_sequence_of_calls_is_a_loop_or_written_out():
    for method, calls in (("sequential", 1), ("sequential_unrolled", 6)):
        f = weft.jit(weft.vmap(lambda x, m=method: root(x, vmap_method=m)))
        text = f.lower(np.abs(NUMBERS)).compile().as_text()
        assert text.count('custom_call_target="Root"') == calls
        np.testing.assert_allclose(f(np.abs(NUMBERS)), np.sqrt(np.abs(NUMBERS)), rtol=1e-6)
        empty = weft.vmap(lambda x, m=method: root(x, vmap_method=m))(NUMBERS[:0])
        assert empty.shape == (0, 5)


def test_vmap_of_vmap():
    x = NUMBERS.reshape(2, 3, 5)
    for method in ("sequential", "broadcast_all", "expand_dims"):
        inner = weft.vmap(lambda x, s, m=method: scaled_sum(x, s, vmap_method=m), (0, None))
        found = weft.vmap(inner, (1, None), out_axes=1)(x.transpose(0, 1, 2), NUMBERS[0])
        np.testing.assert_allclose(found, (x * NUMBERS[0]).sum(-1), rtol=1e-5, atol=1e-6)


def test_vmap_without_a_method_names_the_methods():
    with pytest.raises(errors.WeftNotImplementedError, match="vmap of the foreign call") as caught:
        weft.vmap(lambda x: scaled_sum(x, x))(NUMBERS)
    assert "broadcast_all" in str(caught.value)
    found = weft.vmap(lambda x: scaled_sum(x, x, **caught.value.fix.data))(NUMBERS)
    np.testing.assert_allclose(found, (NUMBERS**2).sum(-1), rtol=1e-6)


@weft.custom_vjp
def sum_of_products(x, scale):
    return scaled_sum(x, scale, vmap_method="broadcast_all")


sum_of_products.defvjp(
    lambda x, s: (sum_of_products(x, s), (x, s)),
    lambda kept, ct: (ct[..., None] * kept[1], ct[..., None] * kept[0]),
)


@weft.custom_jvp
def square_root(x):
    return root(x, vmap_method="sequential")


square_root.defjvp(lambda x, t: (square_root(x[0]), t[0] / (2 * square_root(x[0]))))


@pytest.mark.parametrize("way", WAYS_AND_TWICE)
def test_derivatives_by_rules_of_the_user(way):
    x, s = NUMBERS[0], NUMBERS[1]
    for found, wanted in zip(way(weft.grad(sum_of_products, (0, 1)))(x, s), (s, x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    many = way(weft.vmap(weft.grad(sum_of_products), (0, None)))(NUMBERS, s)
    np.testing.assert_allclose(many, np.tile(s, (6, 1)), rtol=1e-6)
    positive = np.abs(x) + 1
    wanted = -0.25 * positive**-1.5
    hessian = way(weft.hessian(lambda x: square_root(x).sum()))(positive)
    np.testing.assert_allclose(np.diag(hessian), wanted, rtol=1e-5)
    _, tangent = way(lambda x, t: weft.jvp(square_root, (x,), (t,)))(positive, x)
    np.testing.assert_allclose(tangent, x / (2 * np.sqrt(positive)), rtol=1e-6)


def test_a_call_without_a_derivative_says_how_to_give_it_one():
    x = wnp.ones(3)
    for derivative in (
        lambda f: weft.grad(lambda x: f(x).sum())(x),
        lambda f: weft.jvp(f, (x,), (x,)),
        lambda f: weft.linearize(f, x),
        lambda f: weft.jit(weft.grad(lambda x: f(x).sum()))(x),
    ):
        with pytest.raises(errors.MissingRuleError, match="'Root' is differentiated") as caught:
            derivative(root)
        assert "custom_vjp" in caught.value.fix.text
        derivative(square_root)
    np.testing.assert_array_equal(
        weft.grad(lambda x: (root(lax.stop_gradient(x)) * x).sum())(x), np.ones(3)
    )
    # What is no number that can be varied needs no derivative.
    integers = wnp.arange(3)
    found = weft.grad(lambda x: (same(integers)[0] * x).sum())(x)
    np.testing.assert_array_equal(found, np.arange(3))


@pytest.mark.parametrize("way", WAYS_AND_TWICE)
def test_in_loops_and_branches(way):
    x = np.abs(NUMBERS[0]) + 1

    def f(x):
        y, _ = lax.scan(lambda c, _: (square_root(c), None), x, None, length=3)
        y = lax.fori_loop(0, 2, lambda i, c: square_root(c), y)
        return lax.cond(y.sum() > 0, square_root, lambda y: y, y)

    np.testing.assert_allclose(way(f)(x), x ** (1 / 64), rtol=1e-6)
    slope = way(weft.grad(lambda x: lax.scan(
        lambda c, _: (square_root(c), None), x, None, length=3)[0].sum()))(x)  # fmt: skip
    np.testing.assert_allclose(slope, x ** (-7 / 8) / 8, rtol=1e-5)
    saved = way(weft.grad(weft.checkpoint(lambda x: square_root(square_root(x)).sum())))(x)
    np.testing.assert_allclose(saved, x ** (-3 / 4) / 4, rtol=1e-5)


# ---- effects -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS_AND_TWICE)
def test_a_call_with_side_effects_is_kept(way):
    def f(x):
        assert note(x) is None
        return x + 1

    with noted() as found:
        way(f)(wnp.arange(3.0))
    assert found == [0, 1, 2]
    with noted() as found:
        way(lambda: call("Note", None, has_side_effect=True))()
    assert found == [-1]
    with noted() as found:
        way(lambda x: (call("Note", None, x), x)[1])(wnp.arange(3.0))
    assert way is not weft.jit or found == []  # a compiled program leaves out what nobody uses


@pytest.mark.parametrize("way", WAYS_AND_TWICE)
def test_effects_happen_as_often_as_the_program_says(way):
    def loop(x):
        return lax.scan(lambda c, _: (note(c), (c + 1, None))[1], x, None, length=4)[0]

    with noted() as found:
        way(loop)(wnp.zeros(()))
    assert found == [0, 1, 2, 3]

    def branch(x):
        return lax.cond(x > 0, lambda x: (note(x), x)[1], lambda x: -x, x)

    with noted() as found:
        way(branch)(wnp.float32(2.0))
        way(branch)(wnp.float32(-2.0))
    assert found == [2]
    with noted() as found:
        way(weft.vmap(lambda x: note(x, vmap_method="sequential")))(wnp.arange(3.0))
    assert found == [0, 1, 2]
    with noted() as found:  # the backward pass does not run it again
        way(weft.grad(lambda x: (note(lax.stop_gradient(x)), x * x)[1]))(wnp.float32(3.0))
    assert found == [3]


def test_calls_that_use_one_anothers_results_come_in_order():
    def counted(before, x):
        out = call("Note", Struct((), np.int32), x + 0.0 * before, has_side_effect=True)
        return out.astype(np.float32)

    def f(x):
        n = wnp.float32(0.0)
        for i in range(20):
            n = counted(n, x + i)
        return n

    with noted() as found:
        assert float(weft.jit(f)(wnp.zeros(()))) == 20
    assert found == list(range(20))


def test_effects_of_one_program_come_before_those_of_the_next():
    f = weft.jit(lambda x: note(x))
    with noted() as found:
        for i in range(30):
            f(wnp.float32(i))
        assert LIBRARY.notes_taken() == 30  # each call has returned when its effect has happened
    assert found == list(range(30))


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS_AND_TWICE)
def test_the_handlers_error_reaches_the_caller(way):
    f = way(root)
    for _ in range(2):  # the second time the program is compiled already
        with pytest.raises(errors.WeftError, match="Root: a negative number has no root"):
            np.asarray(f(wnp.asarray([1.0, -1.0])))
    np.testing.assert_allclose(f(wnp.asarray([4.0, 9.0])), [2, 3])
    with pytest.raises(errors.WeftError, match="no root"):
        np.asarray(way(lambda x: lax.scan(lambda c, _: (root(c - 1), None), x, None, length=9)[0])
                   (wnp.ones(1)))  # fmt: skip
    with pytest.raises(errors.WeftError, match="no root"):
        weft.block_until_ready(way(lambda x: root(lax.fori_loop(0, 98, lambda i, a: a @ x, x)))
                               (-wnp.eye(300)))  # fmt: skip


def test_an_error_of_a_handler_names_it_and_the_line_of_the_call():
    def f(x):
        out = Struct(x.shape, x.dtype)
        y = same(x)[0]
        return ffi.ffi_call("Root", out)(y) + 1  # the line that is named

    x = wnp.asarray([1.0, -1.0])
    with pytest.raises(errors.WeftError, match="no root") as caught:
        np.asarray(weft.jit(f)(x))
    line = f.__code__.co_firstlineno + 3
    assert f"'Root' ({__file__}:{line} in " in caught.value.operation
    assert "'Same' (" in caught.value.operation and caught.value.location.startswith(__file__)
    for call_it in (
        lambda: np.asarray(ffi.ffi_call("Root", x)(x)),
        lambda: np.asarray(ffi.ffi_call("Root", x)(x)),
    ):  # compiled once; the line is that of the call
        with pytest.raises(errors.WeftError, match="no root") as caught:
            call_it()
        assert caught.value.operation == "ffi_call of 'Root'"
        assert f"{__file__}:{call_it.__code__.co_firstlineno} " in caught.value.location
    with pytest.raises(errors.WeftError, match="no root") as caught:
        weft.jit(lambda x: root(x, has_side_effect=True) + 1)(x)
    assert caught.value.operation.startswith("ffi_call of 'Root' (")


def test_a_name_that_nobody_registered():
    x = wnp.ones(3)
    struct = Struct((3,), np.float32)
    weft.make_jaxpr(lambda x: call("nobodys", struct, x))(x)  # only running it needs the handler
    for way in (lambda f: f, weft.jit):
        with pytest.raises(errors.WeftValueError, match="nothing is registered as 'nobodys'") as e:
            way(lambda x: ffi.ffi_call("nobodys", struct)(x))(x)
        assert "register_ffi_target('nobodys'" in e.value.fix.text
        assert "test_ffi.py" in e.value.location
    assert "'Root'" in str(e.value)
    ffi.register_ffi_target(e.value.fix.data["target"], LIBRARY.Same)
    np.testing.assert_array_equal(call("nobodys", struct, x), np.ones(3))


def test_registering_twice_is_an_error():
    with pytest.raises(errors.WeftValueError, match="this handler is registered as 'Same'"):
        ffi.register_ffi_target("Same", LIBRARY.Same)
    with pytest.raises(errors.WeftValueError, match="another handler is registered as 'Same'") as e:
        ffi.register_ffi_target("Same", LIBRARY.Root)
    assert e.value.fix.kind == "name"
    with pytest.raises(errors.WeftValueError, match="another handler is registered"):
        ffi.register_ffi_target("xla_ffi_python_cpu_callback", LIBRARY.Root)


def test_all_forms_of_a_function_can_be_registered():
    address = ctypes.cast(LIBRARY.Same, ctypes.c_void_p)
    forms = [ffi.pycapsule(LIBRARY.Same), address, {"execute": LIBRARY.Same}, address.value,
             {"execute": ffi.pycapsule(address.value), "initialize": LIBRARY.Same}]  # fmt: skip
    for i, form in enumerate(forms[:-1]):
        ffi.register_ffi_target(f"form {i}", form)
        found = call(f"form {i}", Struct((2,), np.float32), wnp.ones(2))
        np.testing.assert_array_equal(found, np.ones(2))
    ffi.register_ffi_target("with stages", forms[-1])


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: ffi.register_ffi_target("", LIBRARY.Same), errors.WeftTypeError),
        (lambda: ffi.register_ffi_target("w", None), errors.WeftTypeError),
        (lambda: ffi.register_ffi_target("w", lambda: 0), errors.WeftTypeError),
        (lambda: ffi.register_ffi_target("w", 0), errors.WeftTypeError),
        (lambda: ffi.register_ffi_target("w", {"prepare": LIBRARY.Same}), errors.WeftValueError),
        (lambda: ffi.register_ffi_target("w", {"execute": LIBRARY.Same, "run": LIBRARY.Same}),
         errors.WeftValueError),
        (lambda: ffi.register_ffi_target("w", LIBRARY.Same, "abacus"), errors.WeftValueError),
        (lambda: ffi.register_ffi_target("w", LIBRARY.Same, None), errors.WeftValueError),
        (lambda: ffi.register_ffi_target("w", LIBRARY.Same, api_version=2), errors.WeftValueError),
        (lambda: ffi.pycapsule("Same"), errors.WeftTypeError),
    ],
)  # fmt: skip
def test_what_cannot_be_registered(wrong, error):
    with pytest.raises(error) as caught:
        wrong()
    assert caught.value.fix is not None
    ones = wnp.ones(1)
    with pytest.raises(errors.WeftValueError, match="nothing is registered as 'w'"):
        call("w", Struct((1,), np.float32), ones)


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        (lambda x: ffi.ffi_call(LIBRARY.Same, x), errors.WeftTypeError, "name of a target"),
        (lambda x: call("Same", x, x, vmap_method="all"), errors.WeftValueError, "vmap_method"),
        (lambda x: call("Same", "f32", x), errors.WeftTypeError, "result_shape_dtypes"),
        (lambda x: call("Same", x, [x]), errors.WeftTypeError, "argument 0 is no array"),
        (lambda x: call("Same", x, "x"), errors.WeftTypeError, "argument 0 is no array"),
        (lambda x: call("Same", x, random.key(0)), errors.DTypeError, "argument 0 has a dtype"),
        (lambda x: call("Same", x, x, input_layouts=[None, None]), errors.WeftValueError,
         "input_layouts has one entry for each of 1"),
        (lambda x: call("Same", x, x, input_layouts=[(0,)]), errors.ShapeError, "input_layouts"),
        (lambda x: call("Same", x, x, output_layouts=[(1, 1)]), errors.WeftValueError, "Layout"),
        (lambda x: call("Same", x, x, output_layouts=Layout((0, 1), ((2,),))),
         errors.WeftNotImplementedError, "tiles"),
        (lambda x: call("Same", x, x, input_output_aliases={1: 0}), errors.WeftValueError,
         "input_output_aliases"),
        (lambda x: call("Same", x, x[0], input_output_aliases={0: 0}), errors.WeftValueError,
         "operand 0 is"),
        (lambda x: call("Same", x, x, input_output_aliases={0: 0}, input_layouts=[(1, 0)]),
         errors.WeftValueError, "layouts"),
        (lambda x: call("Same", x, x, x, input_output_aliases={0: 0, 1: 0}),
         errors.WeftValueError, "two operands"),
        (lambda x: call("Same", x, x, num_batch_dims=1), errors.WeftValueError, "parts of a batch"),
        (lambda x: scaled_sum(x, x[0], "Parts", num_batch_dims=1), errors.ShapeError,
         "num_batch_dims from 0 to 0"),
        (lambda x: scaled_sum(x, x, "Parts", num_batch_dims=2), errors.ShapeError,
         "num_batch_dims from 0 to 1"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(wrong, error, text):
    with pytest.raises(error, match=text) as caught:
        wrong(wnp.ones((2, 3)))
    assert caught.value.fix is not None


# ---- the rest of weft ----------------------------------------------------------------------------


def test_an_exported_program_names_what_it_needs():
    x = np.array([4.0, 9.0], np.float32)
    with pytest.raises(errors.WeftValueError, match="the program calls 'Root'") as caught:
        export.export(weft.jit(root))(x)
    checks = [export.DisabledSafetyCheck.custom_call(caught.value.fix.data["target"])]
    data = export.export(weft.jit(root), disabled_checks=checks)(x).serialize()
    again = export.deserialize(data, disabled_checks=checks)
    np.testing.assert_allclose(again.call(x), [2, 3])
    with pytest.raises(errors.WeftError, match="no root"):
        np.asarray(again.call(-x))
    with pytest.raises(errors.WeftNotImplementedError, match="side effects"):
        export.export(weft.jit(lambda x: note(x)), disabled_checks=checks)(x)


CACHED = """
import sys
sys.path[:0] = {paths!r}
import numpy as np, weft
import ffi_cases
from weft import ffi
library = ffi_cases.example("build").load({source!r})
ffi.register_ffi_target("kept", getattr(library, sys.argv[1]))
f = weft.jit(lambda x: ffi.ffi_call("kept", weft.ShapeDtypeStruct(x.shape, x.dtype))(x + 1))
print(np.asarray(f(np.arange(4, dtype=np.float32))).tolist())
"""


def test_a_program_from_the_cache_calls_what_is_registered_now(tmp_path):
    code = CACHED.format(
        paths=[str(ROOT / "tests" / "support"), str(ROOT)],
        source=str(ROOT / "tests" / "support" / "ffi_kernels.c"),
    )
    environment = {**os.environ, "WEFT_CACHE_DIR": str(tmp_path / "programs")}

    def run(handler):
        return python_output("-c", code, handler, env=environment).strip()

    assert run("Same") == "[1.0, 2.0, 3.0, 4.0]"
    kept = sorted(path.name for path in (tmp_path / "programs").rglob("*.program"))
    assert kept
    assert run("Same") == "[1.0, 2.0, 3.0, 4.0]" and run("Counting") == "[0.0, 1.0, 2.0, 3.0]"
    assert sorted(path.name for path in (tmp_path / "programs").rglob("*.program")) == kept
