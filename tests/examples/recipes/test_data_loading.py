"""The recipe of data loading: each row once, the same order for the same key, ahead of its use."""

from __future__ import annotations

import threading
from itertools import islice

import numpy as np
import pytest

import weft
from weft import random


def rows_of(batch):
    """The rows of a batch that count."""
    return np.asarray(batch["y"])[np.asarray(batch["weight"]) == 1]


def numbered(count):
    """Data whose labels are the numbers of the rows."""
    number = np.arange(count, dtype=np.int32)
    return {"x": np.stack([number, number**2], axis=1).astype(np.float32), "y": number}


@pytest.mark.smoke
@pytest.mark.parametrize("count", [1, 31, 32, 33, 100])
def test_an_epoch_has_every_row_once(recipe, count):
    orders = []
    for epoch in range(3):
        made = list(recipe.batches(numbered(count), 32, random.key(5), epoch))
        assert len(made) == -(-count // 32)
        assert all(batch["x"].shape == (32, 2) for batch in made)
        for batch in made:
            np.testing.assert_array_equal(batch["x"][:, 1], batch["y"] ** 2)
        orders.append(np.concatenate([rows_of(batch) for batch in made]))
        np.testing.assert_array_equal(np.sort(orders[-1]), np.arange(count))
    if count > 30:
        assert (orders[0] != orders[1]).any() and (orders[1] != orders[2]).any()


def test_an_epoch_is_repeated_without_those_before_it(recipe):
    def rows(seed, epoch):
        made = recipe.batches(numbered(50), 8, random.key(seed), epoch)
        return np.concatenate([batch["y"] for batch in made])

    np.testing.assert_array_equal(rows(1, 7), rows(1, 7))
    assert (rows(1, 7) != rows(2, 7)).any()


def test_files_hold_the_same_data(recipe, tmp_path):
    generator = np.random.default_rng(0)
    pixels, labels = generator.integers(17, size=(20, 5)), generator.integers(10, size=20)
    np.savetxt(tmp_path / "a.csv", np.column_stack([pixels, labels]), fmt="%d", delimiter=",")
    np.save(tmp_path / "x.npy", pixels.astype(np.float32))
    np.save(tmp_path / "y.npy", labels.astype(np.int32))
    of_csv = recipe.from_csv(tmp_path / "a.csv")
    of_npy = recipe.from_npy(tmp_path / "x.npy", tmp_path / "y.npy")
    assert isinstance(of_npy["x"], np.memmap)
    for data in (of_csv, of_npy):
        assert data["x"].dtype == np.float32 and data["y"].dtype == np.int32
        np.testing.assert_array_equal(data["x"], pixels)
        np.testing.assert_array_equal(data["y"], labels)


def test_each_device_has_its_rows(recipe):
    mesh = weft.make_mesh((8,), ("data",))
    (batch,) = recipe.batches(numbered(32), 32, random.key(0), 0)
    put = recipe.split_over(mesh)(batch)
    for name, column in put.items():
        assert len(column.addressable_shards) == 8
        for shard in column.addressable_shards:
            first = 4 * list(mesh.devices.flat).index(shard.device)
            np.testing.assert_array_equal(shard.data, batch[name][first : first + 4])


def test_batches_are_fetched_ahead_and_in_order(recipe):
    fetched, third = [], threading.Event()

    def put(number):
        fetched.append(number)
        if number == 2:
            third.set()
        return number

    stream = recipe.prefetch(range(10), put, ahead=2)
    assert next(stream) == 0
    # The program has the first one only, and two more are on their way.
    assert third.wait(timeout=30)
    assert list(stream) == list(range(1, 10)) == fetched[1:]


def test_a_failing_reader_fails_in_the_program_and_a_stream_can_be_left(recipe):
    def broken():
        yield 1
        yield 2
        raise OSError("the disk is gone")

    stream = recipe.prefetch(broken(), lambda x: x, ahead=2)
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(OSError, match="the disk is gone"):
        next(stream)
    before = threading.active_count()
    stream = recipe.prefetch(range(1000), lambda x: x, ahead=3)
    assert list(islice(stream, 2)) == [0, 1]
    stream.close()
    assert threading.active_count() == before


def test_sums_are_those_of_numpy(recipe):
    data = {"x": np.random.default_rng(0).integers(17, size=(45, 64)).astype(np.float32),
            "y": np.zeros(45, np.int32)}  # fmt: skip
    total = {"pixels": weft.numpy.zeros(64), "rows": weft.numpy.zeros(())}
    for batch in recipe.batches(data, 32, random.key(1), 0):
        total = recipe.add_up(total, batch)
    assert float(total["rows"]) == 45
    np.testing.assert_allclose(total["pixels"], data["x"].sum(axis=0) / 16, rtol=1e-6)
