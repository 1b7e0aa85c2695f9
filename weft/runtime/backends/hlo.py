"""HLO, XLA's own form of a module: conversion from StableHLO, and the header of optimized HLO."""

from __future__ import annotations

import re
from typing import Any

from weft.errors import Fix, WeftError
from weft.runtime.backends.pjrt_buffers import RuntimeFault
from weft.runtime.jaxlib.native import extension
from weft.runtime.stablehlo.mlir import bytecode, ir

# An entry of `input_output_alias={ {0}: (1, {}, may-alias), ... }`: the index of the result ({}
# where there is one), the number of the parameter, and the index within it where all are one tuple.
_ALIAS = re.compile(r"\{(\d*)\}: \((\d+), \{(\d*)\}, (?:may|must)-alias\)")


def computation(module: ir.Module) -> Any:
    """A module as HLO. Raises WeftError for one that HLO cannot express."""
    try:
        return extension.mlir.mlir_module_to_xla_computation(bytecode(module), False, False)
    except (RuntimeFault, ValueError) as error:
        message = f"the program cannot be written in HLO: {error}"
        fix = Fix("dialect", 'ask for the dialect "stablehlo"', {"dialect": "stablehlo"})
        raise WeftError(message, operation="as_text", fix=fix) from error


def estimated_cost(client: Any, module: ir.Module) -> dict[str, float]:
    """XLA's estimates of the cost of a module that is not optimized."""
    return dict(extension.hlo_module_cost_analysis(client, computation(module).get_hlo_module()))


def input_aliases(text: str) -> dict[int, int]:
    """The aliases in the text of optimized HLO: from argnums to the indices of the results that lie
    in the memory of those arguments.

    >>> input_aliases("HloModule f, input_output_alias={ {1}: (0, {}, may-alias) }, x=1")
    {0: 1}
    """
    header = text.partition("\n")[0]
    start = header.find("input_output_alias={")
    if start < 0:
        return {}
    out = {}
    for result, parameter, element in _ALIAS.findall(header[start:]):
        out[int(element or parameter)] = int(result or 0)
    return out
