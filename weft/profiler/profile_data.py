"""The classes by which a program reads a profile: planes, lines and events.

>>> from weft.profiler import ProfileData
>>> list(ProfileData.from_serialized_xspace(b"").planes)
[]
"""

from __future__ import annotations

from typing import Any

from weft.runtime import profiler

ProfileData: Any = profiler.ProfileData
ProfileEvent: Any = profiler.ProfileEvent
ProfilePlane: Any = profiler.ProfilePlane
