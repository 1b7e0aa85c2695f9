"""Looking at the process: the arrays that live in it."""

from __future__ import annotations

import gc
from typing import Any

from weft import tree
from weft.arrays.array import Array
from weft.runtime import client


def copy_to_host_async(x: Any) -> Any:
    """Starts bringing the arrays of a tree to the host, for a later conversion to NumPy; returns
    the tree. Leaves that are not arrays stay as they are.

    x: a tree of arrays and other leaves.

    >>> import numpy as np
    >>> import weft, weft.numpy as jnp
    >>> tree = weft.copy_to_host_async({"w": jnp.ones(2)})
    >>> np.asarray(tree["w"])
    array([1., 1.], dtype=float32)
    """
    for leaf in tree.leaves(x):
        if type(leaf) is Array:
            leaf.copy_to_host_async()
    return x


def live_arrays(platform: str | None = None) -> list[Array]:
    """All arrays of this process that are not deleted, on the devices of a platform. Every object
    of the process is looked at, which takes a while.

    platform: the name of a platform, such as "cpu"; None for the current one.

    >>> import weft, weft.numpy as jnp
    >>> x = jnp.ones(3)
    >>> any(x is found for found in weft.live_arrays())
    True
    """
    devices = set(client.backend_for(platform).devices())
    # The collector also sees arrays that are being made, and those that tests make of nothing.
    objects = [x for x in gc.get_objects() if type(x) is Array]
    found = [x for x in objects if getattr(x, "_buffer", None) is not None]
    return [x for x in found if not x.is_deleted() and devices.issuperset(x.devices())]
