"""Arrays in layouts, and whether their memory agrees with what they say."""

from __future__ import annotations

import itertools

import numpy as np

import weft
from weft.layout import Format, Layout
from weft.runtime import client
from weft.sharding import NamedSharding, P, SingleDeviceSharding

DEVICE = weft.devices()[0]
HERE = SingleDeviceSharding(DEVICE)
MESH = weft.make_mesh((4, 2), ("i", "j"))
# Those that NumPy reads through DLPack.
NUMPY_DTYPES = [np.dtype(name) for name in ("f2", "f4", "f8", "i1", "i4", "u1", "c8", "?")]
COLUMNS = Format(Layout((1, 0)), HERE)


def table(*shape, dtype=np.float32):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def order_of(x):
    """The order that an array says it has, when the memory on every device has been seen to have
    it."""
    order = x.format.layout.major_to_minor
    for part in client.backend().shards(x._buffer):
        stored = client.backend().layout(part).major_to_minor
        logical = tuple(axis for axis in stored if axis < x.ndim)
        # XLA does not tell orders of dimensions of length 1 apart, and neither does memory.
        assert logical == order, f"memory is in order {logical}, the array says {order}"
        if x.dtype in NUMPY_DTYPES:
            # What the runtime says is checked too: this reads the memory itself.
            np.testing.assert_array_equal(
                np.from_dlpack(_Part(part)), client.backend().to_numpy(part)
            )
    return order


class _Part:
    """A buffer of the runtime as an exporter of DLPack."""

    def __init__(self, part):
        self.part = part

    def __dlpack__(self, **options):
        return client.backend().to_dlpack(self.part)

    def __dlpack_device__(self):
        return 1, 0


def memory_of(x):
    """The elements of a single-device array of numbers in the order in which memory holds them,
    read through DLPack, whose strides come from the runtime and not from weft."""
    view = np.from_dlpack(x)
    return np.lib.stride_tricks.as_strided(view, (view.size,), (view.itemsize,))


def same(x, wanted):
    order = order_of(x)
    np.testing.assert_array_equal(np.asarray(x), wanted)
    return order


def orders(ndim):
    return list(itertools.permutations(range(ndim)))


def over(*entries, layout=None):
    sharding = NamedSharding(MESH, P(*entries))
    return sharding if layout is None else Format(Layout(layout), sharding)
