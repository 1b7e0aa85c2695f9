"""Proposes how a decoder is divided over a mesh: plans every way of the literature, best first."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from weft.analysis.decoder import ROLES, Decoder, fits, gradient_program, shards
from weft.analysis.hardware import Hardware, check_hardware
from weft.analysis.plan import Plans, ProgramPlan, plan
from weft.errors import Fix, WeftTypeError, WeftValueError, api_boundary
from weft.sharding.mesh import AnyMesh


@api_boundary
def propose(
    model: Decoder,
    mesh: AnyMesh,
    *,
    batch: int,
    length: int,
    hardware: Hardware,
    microbatches: int = 8,
    bytes_of_state: float = 12.0,
    roles: Sequence[str] = ROLES,
) -> Plans:
    """Plans a training step of a decoder for each assignment of roles to the axes of a mesh.

    model: the sizes of the decoder; mesh: a `Mesh` or an `AbstractMesh`; hardware: its devices, as
    in `plan`. batch: all sequences of a step; length: tokens in each. microbatches: their number in
    a pipeline. bytes_of_state: the optimizer's bytes for each parameter; 12 are Adam's two moments
    and a master copy in float32. roles: the roles to try, from "data", "fsdp", "tensor",
    "sequence", "expert" and "pipeline"; `weft.analysis.gradient_program` makes the program of an
    assignment. The step computes each layer again in its backward pass. Assignments that do not
    divide the model's lengths are left out. A plan's name is the assignment. Raises WeftTypeError
    for a model that is not a `weft.Decoder` and hardware that is not a `weft.Hardware`,
    WeftValueError for an unknown role, and where no assignment divides.

    >>> import weft
    >>> model = weft.Decoder(layers=32, width=4096, heads=32, hidden=16384, vocabulary=32768)
    >>> mesh = weft.sharding.AbstractMesh((16, 8), ("nodes", "chips"))
    >>> chip = weft.Hardware(
    ...     flops=1e15,
    ...     memory_bandwidth=3e12,
    ...     link_bandwidth={"nodes": 5e10, "chips": 4.5e11},
    ...     memory=80e9,
    ... )
    >>> best = weft.propose(model, mesh, batch=1024, length=2048, hardware=chip)[0]
    >>> best.name
    'nodes: data, chips: fsdp'
    """
    if not isinstance(model, Decoder):
        raise _no_model(model)
    check_hardware("propose", hardware)
    unknown = [role for role in roles if role not in ROLES]
    if unknown:
        raise _unknown_role(unknown[0])
    found: list[ProgramPlan] = []
    for chosen in itertools.product(roles, repeat=len(mesh.axis_names)):
        assignment = dict(zip(mesh.axis_names, chosen, strict=True))
        if fits(model, mesh, assignment, batch, length, microbatches):
            one = _plan_decoder(model, mesh, assignment, batch, length, microbatches, hardware)
            state = bytes_of_state * _parameters_of_a_device(model, mesh, assignment)
            found.append(dataclasses.replace(one, device_memory=one.device_memory + state))
    if not found:
        raise _no_division_error(model, mesh, batch, length)
    return Plans(tuple(sorted(found, key=lambda way: (not way.fits, way.seconds))))


def _plan_decoder(
    model: Decoder,
    mesh: AnyMesh,
    roles: Mapping[Any, str],
    batch: int,
    length: int,
    microbatches: int,
    hardware: Hardware,
) -> ProgramPlan:
    function, *args = gradient_program(model, mesh, roles, batch, length, microbatches)
    name = ", ".join(f"{axis}: {role}" for axis, role in roles.items())
    return dataclasses.replace(plan(function, *args, hardware=hardware), name=name)


def _parameters_of_a_device(model: Decoder, mesh: AnyMesh, roles: Mapping[Any, str]) -> float:
    parts = shards(model, mesh, roles)
    return sum(prod(shape) / parts[name] for name, shape in model.weights.items())


def _no_model(model: Any) -> WeftTypeError:
    message, got = "propose takes the sizes of a decoder", f"{model!r:.100}"
    text = "pass a weft.Decoder; weft.plans compares programs of your own"
    return WeftTypeError(message, got=got, wanted="a weft.Decoder", fix=Fix("decoder", text))


def _unknown_role(role: Any) -> WeftValueError:
    message = f"propose knows no role {role!r} of a mesh axis"
    fix = Fix("roles", f"choose among roles={ROLES}", {"roles": ROLES})
    return WeftValueError(message, got=repr(role), wanted=f"some of {ROLES}", fix=fix)


def _no_division_error(model: Decoder, mesh: AnyMesh, batch: int, length: int) -> WeftValueError:
    sizes: Iterable[str] = (f"{axis}: {mesh.axis_size(axis)}" for axis in mesh.axis_names)
    message = "propose found no way to divide this model over this mesh"
    wanted = "a batch, or heads, hidden and vocabulary, that the lengths of the axes divide"
    fix = Fix("batch", f"for example batch={mesh.size}", {"batch": mesh.size})
    got = f"{model}, batch={batch}, length={length} over {', '.join(sizes)}"
    return WeftValueError(message, got=got, wanted=wanted, fix=fix)
