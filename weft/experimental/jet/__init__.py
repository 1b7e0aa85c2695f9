"""Taylor mode: derivatives of all orders up to one along a curve, at once."""

from weft.base.facades import public_names
from weft.experimental.jet.taylor_mode import jet, jet2
from weft.experimental.jet.taylor_trace import JetTrace, JetTracer

__all__ = ["JetTrace", "JetTracer", "jet", "jet2"]

__dir__ = public_names(globals())
