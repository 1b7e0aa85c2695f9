"""The runtime with several devices: where programs put arrays, and the parts of a buffer."""

from __future__ import annotations

import numpy as np
import pytest
from test_runtime import fresh

from stablehlo_programs import Type, doubling, type_of
from weft.errors import DeletedArrayError
from weft.runtime import client, stablehlo
from weft.runtime.backends.backend import CompileOptions

pytestmark = pytest.mark.fast


def compiled_over_mesh(x, axes, ids, argument, *results):
    """The identity over a mesh, with specs for its argument and for each result (None: free)."""
    module = stablehlo.Module("mesh", num_partitions=8)
    name = stablehlo.mesh(module, axes, ids)

    def split(spec):
        return {} if spec is None else {"sdy.sharding": stablehlo.sharding(name, spec)}

    kind = stablehlo.array_type_to_ir(type_of(x))
    with module.function(
        "main",
        [kind],
        [kind] * len(results),
        public=True,
        arg_attributes=[split(argument)],
        result_attributes=[split(spec) for spec in results],
    ) as main:
        main.return_([stablehlo.add(*main.arguments, *main.arguments)] * len(results))
    options = CompileOptions(num_partitions=8)
    return client.backend().compile(module.ir, options, [type_of(x)] * len(results))


@pytest.mark.parametrize("ids", [(), (0, 2, 4, 6, 1, 3, 5, 7), (7, 6, 5, 4, 3, 2, 1, 0)])
def test_a_program_says_where_its_arguments_and_results_lie(ids):
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    grid = np.asarray(ids or range(8)).reshape(4, 2)
    executable = compiled_over_mesh(
        x, [("i", 4), ("j", 2)], ids, (("i",), ()), (("j",), ("i",)), ((), ("j", "i")), ((), ())
    )
    (argument,) = executable.parameter_assignments()
    one, two, three = executable.output_assignments()
    assert argument.shape == (4, 1, 2) and one.shape == (2, 4, 1) and two.shape == (1, 8, 1)
    assert three is None
    np.testing.assert_array_equal(np.sort(argument[:, 0]), np.sort(grid))
    np.testing.assert_array_equal(one[..., 0], grid.T)
    np.testing.assert_array_equal(two[0, :, 0], grid.T.ravel())
    # The results are labelled with what XLA says: each part has the block that it should have.
    devices = client.devices()
    placement = client.backend().tiled(devices, argument)
    rows = np.argsort(argument[:, 0].ravel()) // 2
    blocks = [x[2 * row : 2 * row + 2] for row in rows]
    out = executable.run([client.backend().put_shards(blocks, type_of(x), placement, devices)])[0]
    for i, j in np.ndindex(2, 4):
        part = client.backend().shards(out)[one[i, j, 0]]
        block = 2 * x[4 * i : 4 * i + 4, 2 * j : 2 * j + 2]
        np.testing.assert_array_equal(client.backend().to_numpy(part), block)


def test_a_serialized_program_says_it_too():
    x = np.arange(8, dtype=np.float32)
    executable = compiled_over_mesh(x, [("i", 8)], (), (("i",),), (("i",),))
    again = client.backend().deserialize(
        executable.serialize(), CompileOptions(num_partitions=8), [type_of(x)]
    )
    assert [a.shape for a in again.output_assignments()] == [(8, 1)]
    assert [a.shape for a in again.parameter_assignments()] == [(8, 1)]
    assert doubling(x).output_assignments() == doubling(x).parameter_assignments() == [None]


def test_a_buffer_under_another_label_shares_its_memory():
    devices = client.devices()
    x = np.arange(16, dtype=np.float32)
    rows = client.backend().tiled(devices, np.arange(8).reshape(8, 1))
    array = client.backend().put_shards(np.split(x, 8), type_of(x), rows, devices)
    square = Type((8, 2), x.dtype)
    again = client.backend().relabel(
        array, square, client.backend().tiled(devices, np.arange(8).reshape(8, 1, 1))
    )
    for one, two in zip(
        client.backend().shards(array), client.backend().shards(again), strict=True
    ):
        assert client.backend().unsafe_pointer(one) == client.backend().unsafe_pointer(two)
    client.backend().delete(array)
    assert client.backend().is_deleted(again)
    with pytest.raises(DeletedArrayError):
        client.backend().relabel(array, square, rows)


def test_parts_are_taken_without_the_jax_package():
    code = """
        import sys
        looked = []
        class Finder:
            def find_spec(self, name, path=None, target=None):
                looked.append(name) if name.startswith("jax.") or name == "jax" else None
        sys.meta_path.insert(0, Finder())
        import numpy as np, ml_dtypes
        from weft.core.types import ArrayType
        from weft.runtime import client
        x = np.arange(8).astype(ml_dtypes.bfloat16)
        devices = client.devices()
        backend = client.backend()
        rows = backend.tiled(devices, np.arange(8).reshape(8, 1))
        array = backend.put_shards(np.split(x, 8), ArrayType(x.shape, x.dtype), rows, devices)
        print([float(backend.to_numpy(part)[0]) for part in backend.shards(array)], looked)
    """
    out, _ = fresh(code, WEFT_NUM_CPU_DEVICES="8")
    assert out == "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0] []"
