"""The fake backend: what it records, counts and answers."""

from __future__ import annotations

import numpy as np
import pytest

from stablehlo_programs import Type, doubling, module_of, program, put, type_of
from weft.errors import DeletedArrayError, WeftError, WeftTypeError
from weft.runtime import client, stablehlo
from weft.runtime.backends.backend import Backend, CompileOptions, DeviceLayout
from weft.runtime.backends.fake import FakeBackend


def test_the_fake_records_programs_and_counts():
    x = np.arange(6, dtype=np.float32)
    fake = FakeBackend(programs={"test": lambda v: [v + v]})
    with client.use_backend(fake):
        assert client.backend() is fake and client.device_count() == 1
        executable = doubling(x)
        (out,) = executable.run([put(x)])
        (out,) = executable.execute([out]).consume_with_handlers(executable.handlers)
        np.testing.assert_array_equal(client.backend().to_numpy(out), 4 * x)
    assert client.backend() is not fake
    assert fake.counts == {"compiles": 1, "executions": 2, "puts": 1, "copies": 0}
    assert "stablehlo.add" in fake.modules[0] and executable.as_text() == fake.modules[0]


def test_the_fake_gives_zeros_where_no_function_stands_for_a_program():
    x = np.arange(6, dtype=np.float32)
    with client.use_backend(FakeBackend()):
        (out,) = doubling(x).run([put(x)])
        np.testing.assert_array_equal(client.backend().to_numpy(out), np.zeros(6))
        assert client.backend().device_of(out).device_kind == "fake"


def test_the_fake_verifies_programs_and_results():
    x = np.zeros(3, np.float32)
    with client.use_backend(FakeBackend(programs={"test": lambda v: [np.zeros(4)]})):
        with pytest.raises(WeftTypeError, match="announced"):
            doubling(x).run([put(x)])
        with pytest.raises(WeftError, match="stablehlo.add"):
            program(
                lambda v: stablehlo.op1("stablehlo.add", (v, v), stablehlo.tensor_type((4,), "f4")),
                [x],
                [np.zeros(4, np.float32)],
            )


def test_the_fake_keeps_values_like_the_real_one():
    x = np.arange(8, dtype=np.float32)
    with client.use_backend(FakeBackend(num_devices=4)):
        devices = client.devices()
        buffer = put(x)
        x[0] = 9
        assert client.backend().to_numpy(buffer)[0] == 0
        assert not client.backend().to_numpy(buffer).flags.writeable
        moved = client.backend().copy_to_device(buffer, type_of(x), devices[2])
        assert client.backend().device_of(moved) is devices[2]
        client.backend().delete(buffer)
        assert client.backend().is_deleted(buffer)
        with pytest.raises(DeletedArrayError):
            client.backend().to_numpy(buffer)
        with pytest.raises(DeletedArrayError):
            client.backend().block_until_ready([buffer])
        with pytest.raises(WeftTypeError, match="announced"):
            client.backend().put(x, Type((9,), x.dtype))
        assert client.backend().nbytes(moved) == 32 and client.backend().is_ready(moved)
        assert client.backend().layout(moved) == DeviceLayout((0,))
        assert (
            np.from_dlpack(x) is not None
            and client.backend().from_dlpack(x, Type).values is not None
        )


def test_the_fake_splits_results_as_placements_say():
    x = np.arange(8, dtype=np.float32)
    fake = FakeBackend(num_devices=4, programs={"test": lambda v: [v + 1]})
    with client.use_backend(fake):
        devices = client.devices()
        rows = client.backend().tiled(devices, np.arange(4).reshape(2, 2))
        blocks = [x[:4], x[:4], x[4:], x[4:]]
        argument = client.backend().put_shards(blocks, type_of(x), rows, devices)
        module = module_of(lambda v: stablehlo.add(v, v), [x], [x])
        executable = client.backend().compile(
            module.ir, CompileOptions(num_partitions=4), [type_of(x)], out_placements=[rows]
        )
        (out,) = executable.run([argument])
        found = [client.backend().to_numpy(part) for part in client.backend().shards(out)]
        for have, want in zip(found, blocks, strict=True):
            np.testing.assert_array_equal(have, want + 1)
        again = client.backend().assemble(client.backend().shards(out), type_of(x), rows)
        assert len(client.backend().shards(again)) == 4


def test_the_fake_implements_the_whole_seam():
    assert not FakeBackend.__abstractmethods__ and issubclass(FakeBackend, Backend)
    x = np.zeros(3, np.float32)
    with client.use_backend(FakeBackend()):
        executable = doubling(x)
        again = client.backend().deserialize(executable.serialize(), CompileOptions(), [type_of(x)])
        assert again.as_text() == executable.as_text()
        assert again.fingerprint == executable.fingerprint
        assert executable.memory_stats().output_size_in_bytes == 12
        assert executable.cost_analysis()["flops"] == 0
        assert executable.output_layouts() == [DeviceLayout((0,))]
        assert executable.parameter_layouts() == []
        assert (client.process_index(), client.process_count()) == (0, 1)
