"""Builders of StableHLO operations with bodies and of communication, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from stablehlo_programs import (
    BF16,
    COMPLEX,
    FLOATS,
    INTEGERS,
    Type,
    check,
    double,
    sample,
    tolerance,
    type_of,
)
from weft.runtime import client, stablehlo
from weft.runtime.backends.backend import CompileOptions
from weft.runtime.stablehlo import Module, ScatterDimensions

# ---- regions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, *COMPLEX], ids=str)
def test_reduce(dtype):
    x, zero = sample(dtype, (3, 4, 5), 0, 2), np.zeros((), dtype)

    def build(v, z):
        return stablehlo.reduce([v], [z], (2, 0), lambda a, b: [stablehlo.add(a[0], b[0])])

    check(build, [x, zero], [double(x).sum((0, 2)).astype(dtype)], 10 * tolerance(dtype))


def test_reduce_of_two_operands_finds_the_position_of_the_maximum():
    x = sample("f4", (4, 6))

    def body(best, new):
        greater = stablehlo.compare(new[0], best[0], "GT")
        return [stablehlo.select(greater, n, b) for n, b in zip(new, best, strict=True)]

    def build(v, low, zero):
        positions = stablehlo.iota((4, 6), np.int32, 1)
        return stablehlo.reduce([v, positions], [low, zero], (1,), body)

    expected = [x.max(1), x.argmax(1).astype(np.int32)]
    check(build, [x, np.float32(-np.inf), np.int32(0)], expected, 0)


def windows(x, window, strides, padding, fill, spread=(1, 1)):
    x = np.pad(x, padding, constant_values=fill)
    reach = [(w - 1) * d + 1 for w, d in zip(window, spread, strict=True)]
    rows = (x.shape[0] - reach[0]) // strides[0] + 1
    columns = (x.shape[1] - reach[1]) // strides[1] + 1
    return np.array(
        [
            [
                x[i * strides[0] :, j * strides[1] :][
                    : reach[0] : spread[0], : reach[1] : spread[1]
                ]
                for j in range(columns)
            ]
            for i in range(rows)
        ]
    )


def test_reduce_window():
    x = sample("f4", (5, 6))
    arguments = {"window": (2, 3), "strides": (1, 2), "padding": ((1, 0), (0, 2))}

    def build(v, low):
        def body(a, b):
            return [stablehlo.maximum(a[0], b[0])]

        return stablehlo.reduce_window([v], [low], body, **arguments)

    expected = windows(x, (2, 3), (1, 2), ((1, 0), (0, 2)), -np.inf).max((2, 3))
    check(build, [x, np.float32(-np.inf)], [expected], 0)


def test_reduce_window_with_dilations():
    x = sample("f4", (4, 5))

    def add(a, b):
        return [stablehlo.add(a[0], b[0])]

    def spread(v, zero):
        return stablehlo.reduce_window([v], [zero], add, window=(2, 2), window_dilation=(2, 3))

    expected = windows(x, (2, 2), (1, 1), ((0, 0), (0, 0)), 0, (2, 3)).sum((2, 3))
    check(spread, [x, np.float32(0)], [expected])

    def grown(v, zero):
        return stablehlo.reduce_window([v], [zero], add, window=(1, 2), base_dilation=(1, 2))

    wide = np.zeros((4, 9), np.float32)
    wide[:, ::2] = x
    expected = windows(wide, (1, 2), (1, 1), ((0, 0), (0, 0)), 0).sum((2, 3))
    check(grown, [x, np.float32(0)], [expected])


def test_select_and_scatter_is_the_gradient_of_max_pooling():
    x, source = sample("f4", (4, 4)), sample("f4", (2, 2), seed=1)
    expected = np.zeros((4, 4), np.float32)
    for i in range(2):
        for j in range(2):
            block = x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
            at = np.unravel_index(block.argmax(), (2, 2))
            expected[2 * i + at[0], 2 * j + at[1]] = source[i, j]

    def build(v, s, zero):
        return stablehlo.select_and_scatter(
            v,
            s,
            zero,
            lambda a, b: stablehlo.compare(a, b, "GE"),
            stablehlo.add,
            window=(2, 2),
            strides=(2, 2),
            padding=((0, 0), (0, 0)),
        )

    check(build, [x, source, np.float32(0)], expected, 0)


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("i4"), BF16], ids=str)
def test_sort_with_a_payload(dtype):
    x = sample(dtype, (3, 8), -4, 4)
    positions = np.broadcast_to(np.arange(8, dtype=np.int32), (3, 8)).copy()

    def build(v, p):
        return stablehlo.sort(
            [v, p], 1, True, lambda left, right: [stablehlo.compare(left[0], right[0], "LT")]
        )

    order = np.argsort(double(x), 1, kind="stable")
    check(build, [x, positions], [np.take_along_axis(x, order, 1), order.astype(np.int32)], 0)


def test_scatter_adds_rows_and_drops_what_is_out_of_bounds():
    x, rows, updates = (
        sample("f4", (4, 3)),
        np.array([[1], [1], [7]], np.int32),
        sample("f4", (3, 3)),
    )
    expected = x.copy()
    expected[1] += updates[0] + updates[1]
    numbers = ScatterDimensions(
        update_window_dims=(1,),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
    )

    def build(v, i, u):
        return stablehlo.scatter([v], i, [u], numbers, lambda a, b: [stablehlo.add(a[0], b[0])])

    check(build, [x, rows, updates], [expected])


def test_scatter_with_batching_dimensions():
    x, picks = sample("f4", (4, 6)), np.array([[5], [1], [2], [0]], np.int32)
    updates, expected = sample("f4", (4, 1), seed=1), x.copy()
    np.put_along_axis(expected, picks, updates, 1)
    numbers = ScatterDimensions(
        inserted_window_dims=(1,),
        input_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
        scatter_dims_to_operand_dims=(1,),
        index_vector_dim=2,
    )

    def build(v, i, u):
        return stablehlo.scatter(
            [v], i, [u], numbers, lambda a, b: b, indices_are_sorted=True, unique_indices=True
        )

    check(build, [x, picks, updates], [expected], 0)


@pytest.mark.parametrize(("index", "factor"), [(0, 10), (1, 20), (2, 30), (9, 30), (-1, 30)])
def test_case(index, factor):
    x = sample("f4")

    def build(i, v):
        branches = [
            lambda k=k: [stablehlo.multiply(v, stablehlo.constant(k, (2, 3), "f4"))]
            for k in (10, 20, 30)
        ]
        return stablehlo.case(i, branches, [v.type])

    check(build, [np.int32(index), x], [x * np.float32(factor)])


@pytest.mark.parametrize("flag", [True, False])
def test_if(flag):
    x = sample("f4")

    def build(p, v):
        return stablehlo.if_(p, lambda: [stablehlo.negate(v)], lambda: [v], [v.type])

    check(build, [np.array(flag), x], [-x if flag else x])


def test_while_computes_a_factorial():
    def condition(state):
        return stablehlo.compare(state[0], stablehlo.constant(np.int32(1)), "GT")

    def body(state):
        n, product = state
        one = stablehlo.constant(np.int32(1))
        return [stablehlo.subtract(n, one), stablehlo.multiply(product, n)]

    def build(n):
        return stablehlo.while_([n, stablehlo.constant(np.int32(1))], condition, body)

    check(build, [np.int32(6)], [np.int32(1), np.int32(720)])


# ---- communication -------------------------------------------------------------------------------

GROUPS = [[0, 1, 2, 3], [4, 5, 6, 7]]  # over "j" of a mesh of 2 by 4


def run_on_mesh(body, blocks, out_block):
    """What each of eight devices computes from its block (`blocks[d]` is that of device d)."""
    blocks = np.asarray(blocks)
    out_block = np.asarray(out_block)
    whole = Type((8 * blocks.shape[1], *blocks.shape[2:]), blocks.dtype)
    out = Type((8 * out_block.shape[0], *out_block.shape[1:]), out_block.dtype)
    module = Module("mesh", num_partitions=8)
    name = stablehlo.mesh(module, [("i", 2), ("j", 4)])
    ins, outs = stablehlo.array_type_to_ir(whole), stablehlo.array_type_to_ir(out)

    def split(rank):
        return stablehlo.sharding(name, (("i", "j"), *[()] * (rank - 1)))

    how_in, how_out = split(len(whole.shape)), split(len(out.shape))
    with module.function(
        "main",
        [ins],
        [outs],
        public=True,
        arg_attributes=[{"sdy.sharding": how_in}],
        result_attributes=[{"sdy.sharding": how_out}],
    ) as main:
        main.return_(
            stablehlo.manual_computation(
                main.arguments,
                [how_in],
                [how_out],
                ("i", "j"),
                [stablehlo.tensor_type(blocks.shape[1:], blocks.dtype)],
                [outs],
                lambda arguments: body(*arguments),
            )
        )
    devices = client.devices()[:8]

    def placed(rank):
        return client.backend().tiled(devices, np.arange(8).reshape(8, *[1] * rank))

    options = CompileOptions(num_partitions=8)
    executable = client.backend().compile(
        module.ir, options, [out], out_placements=[placed(len(out.shape))]
    )
    argument = client.backend().put_shards(list(blocks), whole, placed(len(whole.shape)), devices)
    (result,) = executable.run([argument])
    return np.stack([client.backend().to_numpy(part) for part in client.backend().shards(result)])


BLOCKS = np.arange(8 * 4 * 3, dtype=np.float32).reshape(8, 4, 3)


def by_group(blocks):
    return blocks.reshape(2, 4, *blocks.shape[1:])


@pytest.mark.parametrize(
    ("combine", "reference"), [(stablehlo.add, np.sum), (stablehlo.maximum, np.max)]
)
def test_all_reduce(combine, reference):
    found = run_on_mesh(lambda x: stablehlo.all_reduce([x], GROUPS, 1, combine), BLOCKS, BLOCKS[0])
    expected = reference(by_group(BLOCKS), axis=1, keepdims=True)
    np.testing.assert_array_equal(by_group(found), np.broadcast_to(expected, (2, 4, 4, 3)))


def test_all_gather():
    out = np.zeros((4, 12), np.float32)
    found = run_on_mesh(lambda x: stablehlo.all_gather([x], GROUPS, 1, 1), BLOCKS, out)
    for device in range(8):
        group = by_group(BLOCKS)[device // 4]
        np.testing.assert_array_equal(found[device], np.concatenate(list(group), 1))


def test_reduce_scatter():
    out = np.zeros((1, 3), np.float32)
    found = run_on_mesh(
        lambda x: [stablehlo.reduce_scatter(x, GROUPS, 1, 0, stablehlo.add)], BLOCKS, out
    )
    for device in range(8):
        total = by_group(BLOCKS)[device // 4].sum(0)
        np.testing.assert_array_equal(found[device], total[device % 4 : device % 4 + 1])


def test_all_to_all():
    out = np.zeros((1, 12), np.float32)
    found = run_on_mesh(lambda x: stablehlo.all_to_all([x], GROUPS, 1, 0, 1), BLOCKS, out)
    for device in range(8):
        rows = [block[device % 4] for block in by_group(BLOCKS)[device // 4]]
        np.testing.assert_array_equal(found[device], np.concatenate(rows)[None])


def test_collective_permute():
    pairs = [(0, 1), (1, 2), (2, 0), (7, 4)]
    found = run_on_mesh(lambda x: [stablehlo.collective_permute(x, pairs, 1)], BLOCKS, BLOCKS[0])
    expected = np.zeros_like(BLOCKS)
    for source, target in pairs:
        expected[target] = BLOCKS[source]
    np.testing.assert_array_equal(found, expected)


def test_partition_and_replica_numbers():
    def body(x):
        number = stablehlo.add(stablehlo.partition_id(), stablehlo.replica_id())
        return [stablehlo.broadcast_in_dim(number, (4, 3), ())]

    found = run_on_mesh(body, BLOCKS, np.zeros((4, 3), np.uint32))
    np.testing.assert_array_equal(found[:, 0, 0], np.arange(8))


def test_sharding_constraint_and_open_dimensions():
    x = sample("f4", (8, 4))
    module = Module("automatic", num_partitions=8)
    name = stablehlo.mesh(module, [("i", 2), ("j", 4)], device_ids=range(7, -1, -1))
    kind = stablehlo.array_type_to_ir(type_of(x))
    with module.function("main", [kind], [kind], public=True) as main:
        how = stablehlo.sharding(name, (("i",), None), replicated=("j",))
        main.return_([stablehlo.sharding_constraint(main.arguments[0], how)])
    module.verify()
    text = module.text()
    assert 'sdy.mesh @mesh = <["i"=2, "j"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>' in text
    assert '<@mesh, [{"i"}, {?}], replicated={"j"}>' in text
