"""`compute_on`: parts of a program that run on the host of a device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from weft.base.facades import public_names
from weft.experimental.unavailable import refusing, unavailable_error
from weft.runtime import client

__all__ = ["compute_on", "compute_on2"]

__dir__ = public_names(globals())


@contextlib.contextmanager
def compute_on(compute_type: str) -> Iterator[None]:
    """A context whose operations run on the host ("device_host"). On the CPU they always do.

    Raises WeftNotImplementedError on other devices, and for other kinds of computing.

    Args:
        compute_type: Where operations run: "device_host".
    """
    if compute_type not in ("device_host", "device") or (
        compute_type == "device_host" and client.default_backend() != "cpu"
    ):
        raise unavailable_error(
            f"compute_on({compute_type!r})", "weft computes where arrays lie",
            "weft.device_put to a device of the CPU",
        )  # fmt: skip
    yield


compute_on2 = refusing("compute_on2", "weft computes where arrays lie")
