"""Profiles of programs for TensorBoard, XProf and Perfetto, and names for what appears in them."""

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
