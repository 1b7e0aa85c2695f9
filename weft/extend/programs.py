"""Executables: lowering and compiling a jaxpr, the devices that it runs on, and running it."""

from weft.base.facades import public_names
from weft.base.program_caches import holds_programs, on_clear
from weft.lowering.executables import (
    LoweredProgram,
    Program,
    compile_lowered,
    compile_program,
    explain_failure,
    lower_program,
    run_program,
)
from weft.lowering.placement import (
    joint_place,
    operand_place,
    operand_shardings,
    outside_mesh,
    same_devices,
)
from weft.lowering.result_layouts import known_formats

# fmt: off
__all__ = [
    "LoweredProgram", "Program", "compile_lowered", "compile_program", "explain_failure",
    "holds_programs", "joint_place", "known_formats", "lower_program", "on_clear",
    "operand_place", "operand_shardings", "outside_mesh", "run_program", "same_devices",
]
# fmt: on

__dir__ = public_names(globals())
