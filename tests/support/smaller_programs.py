"""Makes a program that shows a fault smaller, as long as it shows it.

Lines go, or become inputs with the values that they have to have; operands are exchanged for
earlier ones; numbers in the text and lengths of inputs become smaller (Zeller and Hildebrandt,
Simplifying and isolating failure-inducing input, IEEE Trans. Software Engineering 28, 2002).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator

import numpy as np

import weft
from compiler_inputs import DEVICES, Input
from compiler_programs import Program

__all__ = ["smaller"]

# A program that fails in this way; None where one cannot be run.
Fails = Callable[[Program], bool]


def smaller(program: Program, fails: Fails, tries: int = 400) -> Program:
    """The smallest program found that still fails.

    fails: whether a program fails as the first one does; False for one that cannot be run.
    tries: how many programs are run at most.
    """
    left = tries
    found = True
    while found and left > 0:
        found = False
        for candidate in candidates(program):
            if candidate == program:
                continue
            left -= 1
            if left < 0:
                break
            if fails(candidate):
                program, found = candidate, True
                break
    return program


def candidates(program: Program) -> Iterator[Program]:
    """Programs that are simpler in one thing, the largest steps first."""
    if program.mode == "sharded":
        yield dataclasses.replace(program, mode="jit")
    if len(program.outputs) > 1:
        for name in program.outputs:
            yield needed(dataclasses.replace(program, outputs=(name,)))
    yield from earlier_results(program)
    yield from lines_replaced(program)
    yield from inputs_simplified(program)
    yield from numbers_reduced(program)


def needed(program: Program) -> Program:
    """Without lines and inputs that no result needs."""
    used, lines = set(program.outputs), []
    for name, expression in reversed(program.lines):
        if name in used:
            lines.append((name, expression))
            used |= names_in(expression)
    inputs = tuple((name, x) for name, x in program.inputs if name in used) or program.inputs[:1]
    return dataclasses.replace(program, inputs=inputs, lines=tuple(reversed(lines)))


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"\b[vr]\d+\b", expression))


def earlier_results(program: Program) -> Iterator[Program]:
    """What the last line reads, as the result."""
    if program.lines and len(program.outputs) == 1 and program.mode != "shard_map":
        for name in sorted(names_in(program.lines[-1][1])):
            yield needed(dataclasses.replace(program, outputs=(name,)))


def lines_replaced(program: Program) -> Iterator[Program]:
    """A line replaced by one of its operands, or by an input of its type."""
    types = types_of(program)
    for i, (name, expression) in enumerate(program.lines):
        rest = program.lines[:i], program.lines[i + 1 :]
        for operand in sorted(names_in(expression)):
            after = tuple((n, re.sub(rf"\b{name}\b", operand, e)) for n, e in rest[1])
            outputs = tuple(operand if n == name else n for n in program.outputs)
            yield needed(dataclasses.replace(program, lines=rest[0] + after, outputs=outputs))
        type = types.get(name)
        if type is not None:
            for kind in ("grid", "special", "normal", "one"):
                new = name, Input(kind, type[0], type[1], 1)
                changed = dataclasses.replace(
                    program, inputs=(*program.inputs, new), lines=rest[0] + rest[1]
                )
                yield needed(changed)


def types_of(program: Program) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype of each line, outside of blocks."""
    if program.mode == "shard_map":
        return {}
    names = tuple(name for name, _ in program.lines)
    whole = dataclasses.replace(program, outputs=names or program.outputs, mode="jit")
    shapes = [weft.ShapeDtypeStruct(x.shape, x.dtype) for _, x in program.inputs]
    try:
        found = weft.eval_shape(whole.function(), *shapes)
    except Exception:  # noqa: BLE001 (a candidate may be no program)
        return {}
    return {n: (tuple(t.shape), np.dtype(t.dtype).name) for n, t in zip(names, found, strict=True)}


def inputs_simplified(program: Program) -> Iterator[Program]:
    for i, (name, x) in enumerate(program.inputs):
        plainer = [dataclasses.replace(x, kind=kind) for kind in ("grid",) if x.kind != kind]
        if x.split is not None and program.mode != "jit":
            plainer.append(dataclasses.replace(x, split=None))
        for new in plainer:
            yield with_input(program, i, name, new)


def with_input(program: Program, i: int, name: str, x: Input) -> Program:
    inputs = (*program.inputs[:i], (name, x), *program.inputs[i + 1 :])
    return dataclasses.replace(program, inputs=inputs)


NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


def numbers_reduced(program: Program) -> Iterator[Program]:
    """A number smaller wherever it stands, in the text and among the lengths of inputs."""
    text = {int(n) for _, e in program.lines for n in NUMBER.findall(e)}
    lengths = {n for _, x in program.inputs for n in x.shape}
    for old in sorted(text | lengths, reverse=True):
        for new in dict.fromkeys(
            [1, 2, 3, old // 4, old // 2, old * 3 // 4, old * 15 // 16, old - 1]
        ):
            if 0 < new < old:
                yield from renumbered(program, old, new)


def renumbered(program: Program, old: int, new: int) -> Iterator[Program]:
    lines = tuple((n, re.sub(rf"(?<![\w.]){old}(?![\w.])", str(new), e)) for n, e in program.lines)
    yield dataclasses.replace(program, lines=lines, inputs=shortened(program, old, new))
    yield dataclasses.replace(program, inputs=shortened(program, old, new))
    yield dataclasses.replace(program, lines=lines)


def shortened(program: Program, old: int, new: int) -> tuple[tuple[str, Input], ...]:
    found = []
    for name, x in program.inputs:
        shape = tuple(
            (n if k == x.split and new % DEVICES else new) if n == old else n
            for k, n in enumerate(x.shape)
        )
        found.append((name, dataclasses.replace(x, shape=shape)))
    return tuple(found)
