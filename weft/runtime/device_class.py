"""The class of devices, which is jaxlib's: loaded when it is asked for."""

from __future__ import annotations

from typing import Any

from weft.runtime.jaxlib.native import extension

Device: Any = extension.Device
