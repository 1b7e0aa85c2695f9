"""What a device computes, reads and sends in a second, and how long a piece of work takes on it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from weft import dtypes
from weft.errors import Fix, WeftTypeError, WeftValueError


@dataclasses.dataclass(frozen=True)
class Hardware:
    """A device of a mesh.

    flops: operations per second, or a dict of them by the name of the dtype that is multiplied
    ("bfloat16", "float32"); a dtype that is not named has the least of them.
    memory_bandwidth: bytes per second from the device's memory. link_bandwidth: bytes per second
    that a device sends along a mesh axis while it receives as many, one number for all axes or a
    dict by axis. latency: seconds until the first byte arrives. memory: bytes. name and source: for
    the reader. Raises WeftValueError for numbers that are not positive.

    >>> import weft
    >>> chip = weft.Hardware(flops=1e14, memory_bandwidth=1e12, link_bandwidth={"model": 1e11})
    >>> chip.flops_of("float32"), chip.bandwidth_along("model")
    (100000000000000.0, 100000000000.0)
    """

    flops: float | Mapping[str, float]
    memory_bandwidth: float
    link_bandwidth: float | Mapping[Any, float] = math.inf
    latency: float = 0.0
    memory: float = math.inf
    name: str = "hardware"
    source: str = ""

    def __post_init__(self) -> None:
        for field in ("flops", "memory_bandwidth", "link_bandwidth", "memory"):
            given = getattr(self, field)
            for number in given.values() if isinstance(given, Mapping) else (given,):
                if not isinstance(number, (int, float)) or not number > 0:
                    raise _not_positive(field, number)
        if not isinstance(self.latency, (int, float)) or not self.latency >= 0:
            raise _not_positive("latency", self.latency)

    def flops_of(self, dtype: Any) -> float:
        """Operations per second on numbers of a dtype; of complex ones those of their parts."""
        if not isinstance(self.flops, Mapping):
            return float(self.flops)
        of = dtypes.parse(dtype)
        if of.kind == "c":
            of = np.dtype(f"float{4 * of.itemsize}")
        return float(self.flops.get(of.name, min(self.flops.values())))

    def bandwidth_along(self, axis: Any) -> float:
        """Bytes per second along a mesh axis. Raises WeftValueError for one that is not named."""
        if not isinstance(self.link_bandwidth, Mapping):
            return float(self.link_bandwidth)
        found = self.link_bandwidth.get(axis)
        if found is None:
            message = f"the hardware has no bandwidth along the mesh axis {axis!r}"
            got = f"link_bandwidth={dict(self.link_bandwidth)!r}"
            fix = Fix("axis", f"add {axis!r} to link_bandwidth, or give one number for all axes")
            raise WeftValueError(
                message, operation="Hardware", got=got, wanted=f"an entry for {axis!r}", fix=fix
            )
        return float(found)


def _not_positive(field: str, number: Any) -> WeftValueError:
    message = f"Hardware takes a positive number as {field}"
    fix = Fix("positive", f"pass {field}=1e12, in units per second, or bytes")
    if field == "latency":
        message = "Hardware takes a number of seconds as latency"
        fix = Fix("latency", "pass latency=1e-6")
    wanted = "a number greater than 0" if field != "latency" else "a number that is not negative"
    return WeftValueError(message, operation="Hardware", got=repr(number), wanted=wanted, fix=fix)


def check_hardware(operation: str, hardware: Any) -> None:
    """Raises WeftTypeError for anything that is not a `Hardware`."""
    if isinstance(hardware, Hardware):
        return
    message, got = f"{operation} takes the hardware of a device", repr(hardware)
    fix = Fix("hardware", "pass hardware=weft.ACCELERATORS['H100'], or a weft.Hardware of yours")
    raise WeftTypeError(message, operation=operation, got=got, wanted="a weft.Hardware", fix=fix)


def communication_time(
    hardware: Hardware, kind: str, size: float, group: int, axes: tuple[Any, ...]
) -> float:
    """Seconds that a collective of `size` bytes on each device takes among `group` devices.

    They send in a ring along the axes: the whole result but their own part once, an all-reduce
    twice (Chan, Heimlich, Purkayastha and van de Geijn, Collective communication: theory, practice,
    and experience, 2007). `size` is that of the larger of operand and result. Several axes take the
    slowest one's bandwidth.

    Args:
        hardware: The bandwidths and the latency of the devices.
        kind: The name of the collective, such as "all_reduce".
        axes: The mesh axes along which the devices communicate.
    """
    if group <= 1 or not size:
        return 0.0
    bandwidth = min((hardware.bandwidth_along(axis) for axis in axes), default=math.inf)
    if kind == "collective_permute":
        return size / bandwidth + hardware.latency
    rounds = 2 if kind == "all_reduce" else 1
    share = (group - 1) / group
    return rounds * (share * size / bandwidth + (group - 1) * hardware.latency)


ACCELERATORS: Mapping[str, Hardware] = {
    "A100": Hardware(
        flops={"bfloat16": 312e12, "float16": 312e12, "float32": 19.5e12, "float64": 9.7e12},
        memory_bandwidth=2039e9,
        link_bandwidth=300e9,
        memory=80e9,
        name="NVIDIA A100 SXM 80 GB",
        source="NVIDIA A100 datasheet (2021): dense rates; NVLink 600 GB/s in both directions",
    ),
    "H100": Hardware(
        flops={"bfloat16": 989.4e12, "float16": 989.4e12, "float32": 67e12, "float64": 34e12}
        | dict.fromkeys(("float8_e4m3fn", "float8_e5m2"), 1978.9e12),
        memory_bandwidth=3.35e12,
        link_bandwidth=450e9,
        memory=80e9,
        name="NVIDIA H100 SXM",
        source="NVIDIA H100 datasheet (2023): dense rates; NVLink 900 GB/s in both directions",
    ),
    "TPU v4": Hardware(
        flops={"bfloat16": 275e12, "float32": 275e12 / 6},
        memory_bandwidth=1228e9,
        link_bandwidth=100e9,
        memory=32e9,
        name="TPU v4",
        source="Google Cloud documentation, TPU v4: 275 Tflop/s, 1228 GB/s, 6 links of 50 GB/s; a "
        "ring along an axis uses two. float32 as 6 products of bfloat16",
    ),
    "TPU v5e": Hardware(
        flops={"bfloat16": 197e12, "float32": 197e12 / 6},
        memory_bandwidth=819e9,
        link_bandwidth=100e9,
        memory=16e9,
        name="TPU v5e",
        source="Google Cloud documentation, TPU v5e: 197 Tflop/s, 819 GB/s, 1600 Gbit/s over 4 "
        "links; a ring along an axis uses two. float32 as 6 products of bfloat16",
    ),
    "TPU v5p": Hardware(
        flops={"bfloat16": 459e12, "float32": 459e12 / 6},
        memory_bandwidth=2765e9,
        link_bandwidth=200e9,
        memory=95e9,
        name="TPU v5p",
        source="Google Cloud documentation, TPU v5p: 459 Tflop/s, 2765 GB/s, 4800 Gbit/s over 6 "
        "links; a ring along an axis uses two. float32 as 6 products of bfloat16",
    ),
}
"""Devices by their manufacturers' public figures; `source` says which."""
