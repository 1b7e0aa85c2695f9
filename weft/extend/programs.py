"""Compiled programs: lowering and compiling a jaxpr, where it runs, and running it."""

from weft.caches import holds_programs, on_clear
from weft.transforms.known_shardings import known_formats
from weft.transforms.places import (
    joint_place,
    operand_place,
    operand_shardings,
    outside_mesh,
    same_devices,
)
from weft.transforms.programs import (
    LoweredProgram,
    Program,
    compile_lowered,
    compile_program,
    explain_failure,
    lower_program,
    run_program,
)

__all__ = [
    "LoweredProgram",
    "Program",
    "compile_lowered",
    "compile_program",
    "explain_failure",
    "holds_programs",
    "joint_place",
    "known_formats",
    "lower_program",
    "on_clear",
    "operand_place",
    "operand_shardings",
    "outside_mesh",
    "run_program",
    "same_devices",
]
