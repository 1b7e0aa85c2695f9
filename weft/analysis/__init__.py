"""The classes of what `weft.comms`, `weft.cost`, `weft.plan`, `weft.propose` and `weft.show`
return, and what these are made of: the program of a decoder, the time of a collective, the
collectives of a compiled program."""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use

if TYPE_CHECKING:
    from weft.analysis.comms import CommsReport
    from weft.analysis.comms_rows import CommsRow
    from weft.analysis.cost import CostReport, LineCost, RooflineRow
    from weft.analysis.decoder import ROLES, gradient_program
    from weft.analysis.hardware import communication_time
    from weft.analysis.hlo_collectives import compiled_rows
    from weft.analysis.list_casts import Cast
    from weft.analysis.overlap import Product, Schedule, Transfer, schedule
    from weft.analysis.picture_forms import JaxprPicture, LayoutPicture, Picture
    from weft.analysis.plan import Plans, ProgramPlan, Scaling

# fmt: off
__all__ = [
    "Cast", "CommsReport", "CommsRow", "CostReport", "JaxprPicture", "LayoutPicture", "LineCost",
    "Picture", "Plans", "Product", "ProgramPlan", "ROLES", "RooflineRow", "Scaling", "Schedule",
    "Transfer", "communication_time", "compiled_rows", "gradient_program", "schedule",
]
# fmt: on

# Imported on first use: what draws and adds up is not needed to run a program.
_LAZY_NAMES = {
    "weft.analysis.comms": "CommsReport",
    "weft.analysis.comms_rows": "CommsRow",
    "weft.analysis.cost": "CostReport LineCost RooflineRow",
    "weft.analysis.decoder": "ROLES gradient_program",
    "weft.analysis.hardware": "communication_time",
    "weft.analysis.hlo_collectives": "compiled_rows",
    "weft.analysis.list_casts": "Cast",
    "weft.analysis.picture_forms": "JaxprPicture LayoutPicture Picture",
    "weft.analysis.plan": "Plans ProgramPlan Scaling",
    "weft.analysis.overlap": "Product Schedule Transfer schedule",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), (), _LAZY_NAMES)
