"""Profiles of programs for TensorBoard, XProf and Perfetto, and names for what appears in them."""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use
from weft.profiler.session import (
    ProfileOptions,
    StepTraceAnnotation,
    TraceAnnotation,
    annotate_function,
    start_server,
    start_trace,
    stop_server,
    stop_trace,
    trace,
)

# fmt: off
__all__ = [
    "ProfileOptions", "StepTraceAnnotation", "TraceAnnotation", "annotate_function",
    "start_server", "start_trace", "stop_server", "stop_trace", "trace",
]
# fmt: on

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals())
