"""The functions of Pallas: each raises WeftNotImplementedError when it is called."""

from __future__ import annotations

from weft.experimental.pallas.kernels import kernel_function

# fmt: off
__all__ = [
    "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
    "atomic_xchg", "atomic_xor", "broadcast_to", "core_map", "debug_check", "debug_print",
    "delay", "dot", "empty", "empty_like", "empty_ref_like", "enable_debug_checks",
    "enable_poison_buffers", "estimate_cost", "get_global", "kernel", "load", "loop",
    "lower_as_mlir", "max_contiguous", "multiple_of", "num_programs", "pallas_call",
    "pallas_export_experimental", "program_id", "reciprocal", "run_scoped", "run_state",
    "select_ref", "semaphore_read", "semaphore_signal", "semaphore_wait", "store", "swap", "when",
    "with_scoped",
]
# fmt: on

atomic_add = kernel_function("pallas.atomic_add")
atomic_and = kernel_function("pallas.atomic_and")
atomic_cas = kernel_function("pallas.atomic_cas")
atomic_max = kernel_function("pallas.atomic_max")
atomic_min = kernel_function("pallas.atomic_min")
atomic_or = kernel_function("pallas.atomic_or")
atomic_xchg = kernel_function("pallas.atomic_xchg")
atomic_xor = kernel_function("pallas.atomic_xor")
broadcast_to = kernel_function("pallas.broadcast_to")
core_map = kernel_function("pallas.core_map")
debug_check = kernel_function("pallas.debug_check")
debug_print = kernel_function("pallas.debug_print")
delay = kernel_function("pallas.delay")
dot = kernel_function("pallas.dot")
empty = kernel_function("pallas.empty")
empty_like = kernel_function("pallas.empty_like")
empty_ref_like = kernel_function("pallas.empty_ref_like")
enable_debug_checks = kernel_function("pallas.enable_debug_checks")
enable_poison_buffers = kernel_function("pallas.enable_poison_buffers")
estimate_cost = kernel_function("pallas.estimate_cost")
get_global = kernel_function("pallas.get_global")
kernel = kernel_function("pallas.kernel")
load = kernel_function("pallas.load")
loop = kernel_function("pallas.loop")
lower_as_mlir = kernel_function("pallas.lower_as_mlir")
max_contiguous = kernel_function("pallas.max_contiguous")
multiple_of = kernel_function("pallas.multiple_of")
num_programs = kernel_function("pallas.num_programs")
pallas_call = kernel_function("pallas.pallas_call")
pallas_export_experimental = kernel_function("pallas.pallas_export_experimental")
program_id = kernel_function("pallas.program_id")
reciprocal = kernel_function("pallas.reciprocal")
run_scoped = kernel_function("pallas.run_scoped")
run_state = kernel_function("pallas.run_state")
select_ref = kernel_function("pallas.select_ref")
semaphore_read = kernel_function("pallas.semaphore_read")
semaphore_signal = kernel_function("pallas.semaphore_signal")
semaphore_wait = kernel_function("pallas.semaphore_wait")
store = kernel_function("pallas.store")
swap = kernel_function("pallas.swap")
when = kernel_function("pallas.when")
with_scoped = kernel_function("pallas.with_scoped")
