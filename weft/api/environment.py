"""Looking at the process: the arrays that live in it, and what it runs on."""

from __future__ import annotations

import gc
import os
import platform
import sys
from typing import Any

import numpy as np

from weft import tree
from weft.arrays.array import Array
from weft.runtime import client
from weft.runtime.jaxlib.native import version_text
from weft.version import __version__

__all__ = ["copy_to_host_async", "live_arrays", "print_environment_info"]


def copy_to_host_async(x: Any) -> Any:
    """Starts bringing the arrays of a tree to the host, for a later conversion to NumPy; returns
    the tree. Leaves that are not arrays stay as they are.

    x: a tree of arrays and other leaves.

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


def print_environment_info(return_string: bool = False) -> str | None:
    """Prints the releases of weft, jaxlib, NumPy and Python, the devices and the machine, for a
    report of a problem; with `return_string` it returns the text.

    >>> import weft
    >>> weft.print_environment_info(return_string=True).splitlines()[0].startswith("weft:")
    True
    """
    devices = client.devices()
    kinds = ", ".join(sorted({str(device.device_kind) for device in devices}))
    lines = [
        f"weft:   {__version__}",
        f"jaxlib: {version_text}",
        f"numpy:  {np.__version__}",
        f"python: {sys.version}",
        f"device info: {kinds}-{len(devices)}, {client.local_device_count()} local devices",
        f"process_count: {client.process_count()}",
        f"platform: {platform.uname()}",
    ]
    variables = ("JAX_", "WEFT_", "XLA_", "CUDA_", "NVIDIA_")
    lines += [f"${k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(variables)]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None
