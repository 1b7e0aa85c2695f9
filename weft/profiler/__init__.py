"""Profiles of programs for TensorBoard, XProf and Perfetto, and names for what appears in them."""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use
from weft.profiler.session import (
    ProfileOptions,
    StepTraceAnnotation,
    TraceAnnotation,
    annotate_function,
    device_memory_profile,
    register_subprocess,
    save_device_memory_profile,
    start_server,
    start_trace,
    stop_server,
    stop_trace,
    trace,
)

if TYPE_CHECKING:
    from weft.profiler.profile_data import ProfileData, ProfileEvent, ProfilePlane

# fmt: off
__all__ = [
    "ProfileData", "ProfileEvent", "ProfileOptions", "ProfilePlane", "StepTraceAnnotation",
    "TraceAnnotation", "annotate_function", "device_memory_profile", "register_subprocess",
    "save_device_memory_profile", "start_server", "start_trace", "stop_server", "stop_trace",
    "trace",
]
# fmt: on

# Classes of jaxlib, which read profiles.
_LAZY_NAMES = {"weft.profiler.profile_data": "ProfileData ProfileEvent ProfilePlane"}

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), (), _LAZY_NAMES)
