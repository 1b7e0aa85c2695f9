"""The functions of Pallas that cannot run: each raises WeftNotImplementedError at the call."""

from __future__ import annotations

from weft.experimental.pallas.kernels import kernel_function

core_map = kernel_function("pallas.core_map")
delay = kernel_function("pallas.delay")
enable_debug_checks = kernel_function("pallas.enable_debug_checks")
enable_poison_buffers = kernel_function("pallas.enable_poison_buffers")
estimate_cost = kernel_function("pallas.estimate_cost")
get_global = kernel_function("pallas.get_global")
kernel = kernel_function("pallas.kernel")
lower_as_mlir = kernel_function("pallas.lower_as_mlir")
pallas_export_experimental = kernel_function("pallas.pallas_export_experimental")
select_ref = kernel_function("pallas.select_ref")
