"""The runtime: devices, buffers, compiling, running, and the backend that stands in for devices."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading

import ml_dtypes
import numpy as np
import pytest

from source_files import ROOT
from stablehlo_programs import Type, doubling, module_of, program, put, type_of
from weft.errors import DeletedArrayError, PlatformError, WeftError, WeftTypeError, WeftValueError
from weft.runtime import client, stablehlo
from weft.runtime.backends.backend import CompileOptions, DeviceLayout
from weft.runtime.backends.pjrt import Distributed
from weft.runtime.backends.pjrt_executable import native_options
from weft.runtime.backends.xla_layouts import layout_mode
from weft.runtime.stablehlo.attributes import integer, to_attribute


def fresh(code, **environment):
    """Runs code in an interpreter of its own; returns what it prints to stdout and stderr."""
    names = ("WEFT_NUM_CPU_DEVICES", "XLA_FLAGS", "TF_CPP_MIN_LOG_LEVEL")
    inherited = {key: value for key, value in os.environ.items() if key not in names}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.strip()


# ---- starting ------------------------------------------------------------------------------------


def test_importing_weft_loads_nothing_of_jaxlib():
    code = """
        import sys, weft, weft.numpy, weft.lax
        print([name for name in sys.modules if name.partition(".")[0] == "jaxlib"])
    """
    assert fresh(code) == ("[]", "")


def test_a_gradient_loads_no_part_that_it_does_without():
    code = """
        import sys, weft, weft.numpy as wnp
        assert weft.jit(weft.grad(lambda x: wnp.tanh(x @ x).sum()))(wnp.eye(3)).shape == (3, 3)
        names = ("jaxlib.mlir.dialects.chlo", "opt_einsum", "weft.lax", "weft.control_flow.scan",
                 "weft.spmd.shard_map_primitive",
                 "weft.dispatch.key_reuse", "numpy.ma", "difflib")
        print([name for name in names if name in sys.modules])
        from weft.extend.interpreters import mlir
        print(hasattr(mlir.hlo, "AddOp"), "AddOp" in dir(mlir.hlo))
        print(float(weft.lax.fori_loop(0, 3, lambda i, x: x * 2.0, 1.0)))
    """
    assert fresh(code) == ("[]\nTrue True\n8.0", "")


def test_a_process_may_end_while_a_program_runs_whose_results_are_gone():
    code = """
        import weft, weft.numpy as wnp

        def main():
            weights = [wnp.ones((256, 256)) * 0.01 for _ in range(100)]
            def loss(weights, x):
                for weight in weights:
                    x = wnp.tanh(x @ weight)
                return x.sum()
            gradient = weft.jit(weft.grad(loss))(weights, wnp.ones((256, 256)))
            del gradient

        main()
        print("done")
    """
    assert fresh(code)[0] == "done"
    in_a_loop = """
        import weft, weft.numpy as wnp
        x = wnp.ones((300, 300))
        weft.jit(lambda x: weft.lax.fori_loop(0, 300, lambda i, y: wnp.tanh(y @ x), x))(x)
        print("done")
    """
    assert fresh(in_a_loop)[0] == "done"


def test_a_process_may_end_while_a_program_is_running():
    code = """
        import weft
        import weft.numpy as wnp

        def loss(weights, x):
            for weight in weights:
                x = wnp.tanh(x @ weight)
            return (x**2).sum()

        weights = [wnp.ones((16, 16)) * 0.01 for _ in range(150)]
        gradient = weft.jit(weft.grad(loss))(weights, wnp.ones((4, 16)))
        print("done")
    """
    assert fresh(code)[0] == "done"


def test_importing_starts_nothing_and_says_nothing():
    code = """
        import pkgutil, sys, weft.runtime
        for module in pkgutil.iter_modules(weft.runtime.__path__):
            __import__(f"weft.runtime.{module.name}")
        from weft.runtime import client, mlir
        print(client.is_started(), mlir._context, "jax" in sys.modules)
    """
    assert fresh(code) == ("False None False", "")


def test_starting_and_running_say_nothing():
    code = """
        from weft.runtime import client
        print(client.default_backend(), client.device_count(), client.is_started())
    """
    assert fresh(code) == ("cpu 1 True", "")


@pytest.mark.parametrize(
    "environment",
    [
        {"WEFT_NUM_CPU_DEVICES": "3"},
        {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"},
        {"WEFT_NUM_CPU_DEVICES": "3", "WEFT_PLATFORMS": "cpu"},
    ],
    ids=str,
)
def test_the_number_of_cpu_devices(environment):
    code = """
        from weft.runtime import client
        print(client.device_count(), client.local_device_count(), client.device_count("cpu"))
    """
    assert fresh(code, **environment)[0] == "3 3 3"


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_a_number_of_devices_that_is_none(number):
    code = """
        from weft.errors import WeftValueError
        from weft.runtime import client
        try:
            client.devices()
        except WeftValueError as error:
            print(error.got)
    """
    assert fresh(code, WEFT_NUM_CPU_DEVICES=number)[0] == repr(number)


def test_a_platform_that_is_not_installed():
    code = """
        from weft.errors import WeftValueError
        from weft.runtime import client
        try:
            client.devices()
        except WeftValueError as error:
            print(error.got, "|", error.fix.text)
    """
    out, _ = fresh(code, WEFT_PLATFORMS="tpu")
    assert out.startswith("tpu | set WEFT_PLATFORMS=cpu")


def test_many_threads_start_one_client():
    code = """
        import threading
        from weft.runtime import client
        found = []
        def work(): found.append(client.backend())
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(found), len(set(map(id, found))))
    """
    assert fresh(code)[0] == "8 1"


def test_questions_about_devices():
    assert client.device_count() == client.local_device_count() == 8
    assert client.devices() == client.local_devices() == client.devices("cpu")
    assert [device.id for device in client.devices()] == list(range(8))
    assert client.backend().default_device is client.devices()[0]
    assert (client.process_index(), client.process_count()) == (0, 1)
    assert client.default_backend() == "cpu"
    assert client.backend() is client.backend_for("cpu") is client.backend_for(None)


def test_an_unknown_platform_names_what_there_is_and_the_fix_works():
    with pytest.raises(PlatformError, match="no platform 'abacus'") as caught:
        client.devices("abacus")
    assert client.devices(caught.value.fix.data["platform"]) == client.devices()


def test_the_cuda_platform_without_a_plugin():
    with pytest.raises(PlatformError, match="'cuda' is not available"):
        client.devices("gpu")


def test_a_group_is_joined_before_devices_start():
    client.devices()
    with pytest.raises(WeftError, match="started before it joined"):
        client.set_distributed(Distributed(client=None, node_id=0, num_nodes=2))


# ---- buffers -------------------------------------------------------------------------------------

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
DTYPES += [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(), (0, 2), (7,), (2, 3)], ids=str)
def test_values_go_in_and_come_out(dtype, shape):
    x = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
    for copy in (True, False):
        out = client.backend().to_numpy(put(x, copy=copy))
        assert (out.shape, out.dtype) == (x.shape, x.dtype)
        np.testing.assert_array_equal(out, x)
        assert not out.flags.writeable


def aligned(count, offset):
    """`count` floats that start `offset` bytes after a multiple of 64."""
    memory = np.zeros(4 * count + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return memory[start : start + 4 * count].view(np.float32)


@pytest.mark.parametrize("count", [1, 16, 1000, 3 << 20, 9 << 20])
@pytest.mark.parametrize("offset", [0, 4])
def test_changing_the_source_afterwards_changes_nothing(count, offset):
    x = aligned(count, offset)
    x[:] = 1
    buffer = put(x)
    x[:] = 2
    assert (client.backend().to_numpy(buffer) == 1).all()


def test_memory_that_will_not_change_is_used_in_place():
    x = aligned(1000, 0)
    assert client.backend().unsafe_pointer(put(x, copy=False)) == x.ctypes.data
    assert client.backend().unsafe_pointer(put(x)) != x.ctypes.data


def test_every_order_in_memory_is_understood():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    big = np.broadcast_to(np.float32(3), (3000, 3000))
    for view in (x.T, x[:, ::-1], x[..., 1::2], np.asfortranarray(x), big, big.T):
        np.testing.assert_array_equal(client.backend().to_numpy(put(view)), view)
    swapped = x.astype(">f4")
    out = client.backend().to_numpy(client.backend().put(swapped, Type(x.shape, np.dtype("f4"))))
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("wrong", [Type((3,), np.dtype("f8")), Type((4,), np.dtype("f4"))])
def test_data_of_another_type_are_refused(wrong):
    with pytest.raises(WeftTypeError, match="announced"):
        client.backend().put(np.zeros(3, np.float32), wrong)


def test_state_of_a_buffer():
    x = np.arange(6, dtype=np.float32)
    buffer = put(x)
    client.backend().block_until_ready([buffer, buffer])
    assert client.backend().is_ready(buffer) and not client.backend().is_deleted(buffer)
    assert client.backend().device_of(buffer) is client.devices()[0]
    assert client.backend().nbytes(buffer) == 24
    assert client.backend().layout(buffer) == DeviceLayout((0,))
    client.backend().copy_to_host_async(buffer)
    np.testing.assert_array_equal(client.backend().to_numpy(buffer), x)


def test_a_deleted_buffer_is_an_error_and_never_a_crash():
    buffer = put(np.arange(6, dtype=np.float32))
    view = client.backend().to_numpy(buffer)
    client.backend().delete(buffer)
    client.backend().delete(buffer)
    assert client.backend().is_deleted(buffer)
    kind = Type((6,), np.dtype("f4"))
    run = doubling(np.zeros(6, np.float32)).run
    for use in (
        client.backend().to_numpy,
        client.backend().is_ready,
        client.backend().shards,
        client.backend().nbytes,
        client.backend().layout,
        client.backend().unsafe_pointer,
        client.backend().to_dlpack,
        client.backend().copy_to_host_async,
        lambda b: client.backend().block_until_ready([b]),
        lambda b: client.backend().copy_to_device(b, kind, client.devices()[1]),
        lambda b: run([b]),
    ):
        with pytest.raises(DeletedArrayError, match="deleted"):
            use(buffer)
    np.testing.assert_array_equal(view, np.arange(6))  # views keep the memory


def test_copies_between_devices():
    x = np.arange(6, dtype=np.float32)
    here = put(x)
    there = client.backend().copy_to_device(here, type_of(x), client.devices()[3])
    assert client.backend().device_of(there) is client.devices()[3]
    client.backend().delete(here)
    np.testing.assert_array_equal(client.backend().to_numpy(there), x)
    elsewhere = put(x, device=client.devices()[5])
    assert client.backend().device_of(elsewhere) is client.devices()[5]


def test_placements_are_equal_objects_for_equal_arguments():
    devices = client.devices()
    assert client.backend().single(devices[0]) is client.backend().single(devices[0])
    order = np.arange(8).reshape(4, 2)
    assert client.backend().tiled(devices, order) is client.backend().tiled(
        list(devices), order.copy()
    )
    assert client.backend().tiled(devices, None) is not client.backend().tiled(devices[:4], None)


def test_arrays_over_several_devices():
    devices = client.devices()
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    rows = client.backend().tiled(devices, np.arange(8).reshape(4, 1, 2))
    blocks = [x[2 * (i // 2) : 2 * (i // 2) + 2] for i in range(8)]
    for array in (
        client.backend().put_shards(blocks, type_of(x), rows, devices),
        client.backend().assemble(
            [put(b, device=d) for b, d in zip(blocks, devices, strict=True)], type_of(x), rows
        ),
    ):
        parts = client.backend().shards(array)
        assert [client.backend().device_of(part) for part in parts] == devices
        for part, block in zip(parts, blocks, strict=True):
            np.testing.assert_array_equal(client.backend().to_numpy(part), block)
        assert client.backend().nbytes(array) == 2 * x.nbytes
        client.backend().delete(array)
        assert client.backend().is_deleted(array)


def test_shards_are_checked_and_copied_like_whole_arrays():
    devices = client.devices()[:2]
    everywhere = client.backend().tiled(devices, None)
    x = np.ones(1000, np.float32)
    array = client.backend().put_shards([x, x], type_of(x), everywhere, devices)
    x[:] = 2
    assert all(
        (client.backend().to_numpy(part) == 1).all() for part in client.backend().shards(array)
    )
    with pytest.raises(WeftTypeError, match="announced"):
        client.backend().put_shards([x, x.astype("f8")], type_of(x), everywhere, devices)


# ---- DLPack --------------------------------------------------------------------------------------


class Exporter:
    """What another library's array looks like to us."""

    def __init__(self, buffer):
        self.buffer = buffer

    def __dlpack__(self, **_):
        return client.backend().to_dlpack(self.buffer)

    def __dlpack_device__(self):
        return 1, 0


def test_dlpack_shares_memory_both_ways():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    buffer = put(x)
    view = np.from_dlpack(Exporter(buffer))
    assert view.ctypes.data == client.backend().unsafe_pointer(buffer)
    for source in (Exporter(buffer), client.backend().to_dlpack(buffer)):
        back = client.backend().from_dlpack(source, Type)
        np.testing.assert_array_equal(client.backend().to_numpy(back), x)
        assert client.backend().unsafe_pointer(back) == client.backend().unsafe_pointer(buffer)
        (doubled,) = doubling(x).run([back])
        np.testing.assert_array_equal(client.backend().to_numpy(doubled), 2 * x)


@pytest.mark.parametrize("dtype", ["?", "i4", "u1", "f2", "f8", "c8"])
def test_numpy_arrays_come_in_through_dlpack(dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    made = {}

    def factory(shape, dtype):
        return made.setdefault("type", Type(shape, dtype))

    buffer = client.backend().from_dlpack(x, factory)
    np.testing.assert_array_equal(client.backend().to_numpy(buffer), x)
    assert made["type"] == type_of(x)


def test_bfloat16_goes_through_dlpack():
    x = np.arange(4).astype(ml_dtypes.bfloat16)
    back = client.backend().from_dlpack(Exporter(put(x)), Type)
    assert client.backend().to_numpy(back).dtype == x.dtype


def test_deleting_a_shared_buffer_leaves_the_other_side_its_values():
    # jaxlib ends the process here if the capsule is made from the buffer itself.
    out, _ = fresh(
        """
        import numpy as np
        from tests.support.stablehlo_programs import Type, type_of
        from weft.runtime import client
        x = np.arange(6, dtype=np.float32)
        buffer = client.backend().put(x, type_of(x))
        capsule = client.backend().to_dlpack(buffer)
        other = client.backend().from_dlpack(client.backend().to_dlpack(buffer), Type)
        client.backend().delete(buffer)
        late = client.backend().from_dlpack(capsule, Type)
        print(client.backend().to_numpy(other).tolist(), client.backend().to_numpy(late).sum())
        """
    )
    assert out == "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0] 15.0"


def test_what_dlpack_cannot_share():
    with pytest.raises(WeftTypeError, match="cannot be shared"):
        client.backend().to_dlpack(put(np.zeros(3, ml_dtypes.int4)))

    class Elsewhere(Exporter):
        def __dlpack_device__(self):
            return 10, 0

    class OnGpu(Exporter):
        def __dlpack_device__(self):
            return 2, 0

    buffer = put(np.zeros(3, np.float32))
    with pytest.raises(WeftValueError, match="this kind of device"):
        client.backend().from_dlpack(Elsewhere(buffer), Type)
    with pytest.raises(WeftValueError, match="does not have"):
        client.backend().from_dlpack(OnGpu(buffer), Type)


# ---- compiling and running -----------------------------------------------------------------------


def test_options_are_hashable_and_take_a_mapping():
    options = CompileOptions(compiler_options={"xla_b": 1, "xla_a": True})
    assert options.compiler_options == (("xla_a", True), ("xla_b", 1))
    assert options == CompileOptions(compiler_options=(("xla_b", 1), ("xla_a", True)))
    assert len({options, CompileOptions(), CompileOptions(fast_compile=True)}) == 3


@pytest.mark.parametrize("fast", [False, True])
def test_running(fast):
    x = np.arange(6, dtype=np.float32)
    executable = doubling(x, fast_compile=fast)
    (out,) = executable.run([put(x)])
    np.testing.assert_array_equal(client.backend().to_numpy(out), 2 * x)
    (out,) = executable.execute([out]).consume_with_handlers(executable.handlers)
    np.testing.assert_array_equal(client.backend().to_numpy(out), 4 * x)
    assert executable.out_types == (type_of(x),)


def test_running_on_another_device():
    x = np.arange(6, dtype=np.float32)
    device = client.devices()[6]
    executable = doubling(x, device_ids=(6,))
    (out,) = executable.run([put(x, device=device)])
    assert client.backend().device_of(out) is device
    np.testing.assert_array_equal(client.backend().to_numpy(out), 2 * x)


def test_a_program_without_results_or_arguments():
    x = np.float32(3)
    assert program(lambda v: [], [x], []).run([put(x)]) == []
    (out,) = program(lambda: stablehlo.constant(x), [], [np.asarray(x)]).run([])
    assert client.backend().to_numpy(out) == 3


def test_compiler_options_reach_xla():
    x = np.arange(6, dtype=np.float32)
    doubling(x, compiler_options={"xla_backend_optimization_level": "0"})
    with pytest.raises(WeftValueError, match="no such compiler option") as caught:
        doubling(x, compiler_options={"xla_no_such_thing": True})
    assert caught.value.fix.data == {"option": "xla_no_such_thing"}
    efforts = ("exec_time_optimization_effort", "memory_fitting_effort", "optimization_level")
    known = set(
        dir(native_options(CompileOptions(), client.devices()[:1]).executable_build_options)
    )
    assert efforts[-1] in known
    for name in efforts:
        if name not in known:
            with pytest.raises(WeftValueError, match="no such compiler option"):
                doubling(x, compiler_options={name: 1})
            continue
        options = CompileOptions(compiler_options={name: 1, "xla_backend_optimization_level": "0"})
        native = native_options(options, client.devices()[:1])
        assert getattr(native.executable_build_options, name) == 1
        assert native.env_option_overrides == [("xla_backend_optimization_level", "0")]
        doubling(x, compiler_options={name: 1})
        with pytest.raises(WeftValueError, match=f"{name} is a number"):
            doubling(x, compiler_options={name: "much"})


def test_what_xla_cannot_compile():
    x = np.float32(1)
    with pytest.raises(WeftError, match="could not compile"):
        program(lambda v: stablehlo.op("math.sin", [v], [v.type]), [x], [np.asarray(x)])


def test_numbers_of_devices_and_placements_are_checked():
    x = np.arange(8, dtype=np.float32)
    with pytest.raises(WeftValueError, match="as many devices"):
        doubling(x, num_partitions=2, device_ids=(0,))


def test_donation_gives_the_memory_away():
    x = np.arange(64, dtype=np.float32)
    kind = stablehlo.array_type_to_ir(type_of(x))
    module = stablehlo.Module("donate")
    donor = {"tf.aliasing_output": integer(0, 32)}
    with module.function("main", [kind], [kind], public=True, arg_attributes=[donor]) as main:
        main.return_([stablehlo.add(*main.arguments, *main.arguments)])
    executable = client.backend().compile(module.ir, CompileOptions(), [type_of(x)])
    buffer = put(x)
    pointer = client.backend().unsafe_pointer(buffer)
    (out,) = executable.run([buffer])
    assert client.backend().is_deleted(buffer) and client.backend().unsafe_pointer(out) == pointer
    with pytest.raises(DeletedArrayError, match="donated"):
        executable.run([buffer])
    # What others still look at is not given away.
    buffer = put(x)
    view = client.backend().to_numpy(buffer)
    (out,) = executable.run([buffer])
    np.testing.assert_array_equal(view, x)
    np.testing.assert_array_equal(client.backend().to_numpy(out), 2 * x)


def test_a_python_callback():
    x = np.arange(3, dtype=np.float32)

    def build(v):
        return stablehlo.custom_call(
            "xla_ffi_python_cpu_callback",
            [v],
            [v.type],
            backend_config={"index": np.uint64(0)},
            has_side_effect=True,
            operand_layouts=[(0,)],
            result_layouts=[(0,)],
        )

    executable = program(build, [x], [x], host_callbacks=(lambda v: (np.asarray(v) + 1,),))
    np.testing.assert_array_equal(client.backend().to_numpy(executable.run([put(x)])[0]), x + 1)

    def fail(v):
        raise KeyError("no such thing")

    with pytest.raises(WeftError, match="no such thing"):
        (out,) = program(build, [x], [x], host_callbacks=(fail,)).run([put(x)])
        client.backend().block_until_ready([out])


def test_analyses():
    x = np.ones((64, 64), np.float32)
    executable = program(
        lambda v: stablehlo.dot_general(v, v, ((1,), (0,))), [x], [x], CompileOptions()
    )
    assert executable.cost_analysis()["flops"] >= 2 * 64**3
    stats = executable.memory_stats()
    assert (stats.argument_size_in_bytes, stats.output_size_in_bytes) == (x.nbytes, x.nbytes)
    assert "dot" in executable.as_text() and "HloModule" in executable.as_text()
    assert executable.parameter_layouts() == executable.output_layouts() == [DeviceLayout((0, 1))]
    assert isinstance(executable.fingerprint, str) and executable.fingerprint


def test_layout_modes():
    assert [str(layout_mode(mode)) for mode in ("auto", (0, 1), (1, 0))] == [
        '"auto"',
        '"{1,0}"',
        '"{0,1}"',
    ]
    assert str(layout_mode(DeviceLayout((1, 0), ((8, 128), (2,))))) == '"{0,1:T(8,128)(2)}"'
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    kind = stablehlo.array_type_to_ir(type_of(x))
    module = stablehlo.Module("layouts")
    columns = [{"mhlo.layout_mode": layout_mode((1, 0))}]
    with module.function("main", [kind], [kind], public=True, result_attributes=columns) as main:
        main.return_([stablehlo.add(*main.arguments, *main.arguments)])
    executable = client.backend().compile(module.ir, CompileOptions(), [type_of(x)])
    assert executable.output_layouts() == [DeviceLayout((1, 0))]
    (out,) = executable.run([put(x)])
    assert client.backend().layout(out) == DeviceLayout((1, 0))
    np.testing.assert_array_equal(client.backend().to_numpy(out), 2 * x)


def test_a_serialized_program_runs_again():
    x = np.arange(6, dtype=np.float32)
    executable = doubling(x)
    data = executable.serialize()
    again = client.backend().deserialize(data, CompileOptions(), [type_of(x)])
    np.testing.assert_array_equal(client.backend().to_numpy(again.run([put(x)])[0]), 2 * x)
    with pytest.raises(WeftValueError, match="cannot be loaded"):
        client.backend().deserialize(b"not a program", CompileOptions(), [type_of(x)])


def test_programs_on_several_devices():
    devices = client.devices()
    x = np.arange(16, dtype=np.float32)
    module = stablehlo.Module("several", num_partitions=8)
    name = stablehlo.mesh(module, [("i", 8)])
    kind = stablehlo.array_type_to_ir(type_of(x))
    split = {"sdy.sharding": stablehlo.sharding(name, (("i",),))}
    whole = {"sdy.sharding": stablehlo.sharding(name, ((),))}
    with module.function(
        "main",
        [kind],
        [kind, kind],
        public=True,
        arg_attributes=[split],
        result_attributes=[split, whole],
    ) as main:
        value = stablehlo.add(*main.arguments, *main.arguments)
        main.return_([value, value])
    rows, everywhere = (
        client.backend().tiled(devices, np.arange(8).reshape(8, 1)),
        client.backend().tiled(devices, None),
    )
    argument = client.backend().put_shards(np.split(x, 8), type_of(x), rows, devices)
    for options, chosen in (
        (CompileOptions(num_partitions=8), None),
        (CompileOptions(num_partitions=8, device_ids=tuple(range(8))), None),
        (CompileOptions(num_partitions=8), devices),
    ):
        executable = client.backend().compile(
            module.ir, options, [type_of(x)] * 2, chosen, [rows, everywhere]
        )
        one, two = executable.run([argument])
        blocks = [client.backend().to_numpy(part) for part in client.backend().shards(one)]
        np.testing.assert_array_equal(np.concatenate(blocks), 2 * x)
        for part in client.backend().shards(two):
            np.testing.assert_array_equal(client.backend().to_numpy(part), 2 * x)
        assert executable.output_assignments()[1] is None
        for assignment in (*executable.parameter_assignments(), executable.output_assignments()[0]):
            np.testing.assert_array_equal(assignment, np.arange(8).reshape(8, 1))


# ---- threads -------------------------------------------------------------------------------------


def test_one_thread_emits_while_another_compiles():
    x = np.arange(6, dtype=np.float32)

    def build(v):
        for _ in range(300):
            v = stablehlo.sine(stablehlo.add(v, v))
        return v

    stop, emitted, failures = threading.Event(), [], []

    def emit():
        count = 0
        while not stop.is_set():
            count += 1
            shape = np.zeros((count % 50 + 1, 3), np.float32)
            with stablehlo.location(f"file{count}.py", count, "f"):
                emitted.append(
                    len(module_of(lambda v: stablehlo.negate(v), [shape], [shape]).text())
                )

    def guarded():
        try:
            emit()
        except Exception as error:  # noqa: BLE001 (whatever it is, the test reports it)
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        for _ in range(5):
            executable = program(build, [x], [x])
    finally:
        stop.set()
        thread.join()
    assert not failures and len(emitted) > 5
    assert np.isfinite(client.backend().to_numpy(executable.run([put(x)])[0])).all()


def test_attributes_of_arguments_are_made_once():
    assert to_attribute(True) is to_attribute(True)
    assert integer(3) is integer(3)
