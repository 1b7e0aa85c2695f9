"""Random programs for the compiler, as text: each line makes an array of earlier ones.

The text is what a finding is printed as, and what is made smaller; the values of the inputs follow
from their descriptions. A seed says all of a program.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

import weft
import weft.numpy as jnp
from compiler_inputs import DEVICES, Input
from compiler_lines import IN_BLOCKS, LINES, MOST_ELEMENTS, Draw, NoValue
from weft import lax
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P

__all__ = ["Program", "draw"]

SMALL = (1, 2, 3, 4, 5, 7, 8, 8, 9, 16)
# Numbers of elements from which on the compiler, or its libraries, work in other ways.
LARGE = (64, 65, 100, 4095, 4096, 4097, 8192, 32768, 32769, 40003, 65537)


@dataclasses.dataclass(frozen=True)
class Program:
    """Inputs v0, v1, ..., lines `(name, expression)`, and the names of the results.

    mode: "jit"; "grad", the gradient of the sum of results; "sharded", on inputs that devices
    share; "shard_map", whose lines run on blocks. mesh: how the devices of "sharded" are arranged;
    the second axis splits the dimension after the one that the first splits.
    """

    inputs: tuple[tuple[str, Input], ...]
    lines: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]
    mode: str = "jit"
    mesh: tuple[int, ...] = (DEVICES,)

    def body(self) -> str:
        """The function as text."""
        names = ", ".join(name for name, _ in self.inputs)
        lines = "".join(f"    {name} = {expression}\n" for name, expression in self.lines)
        return f"def program({names}):\n{lines}    return {', '.join(self.outputs)},\n"

    def function(self) -> Callable[..., Any]:
        """The function of the inputs."""
        names: dict[str, Any] = {"jnp": jnp, "lax": lax, "np": np, "weft": weft}
        exec(self.body() + self.around(), names)
        return names["run"]

    def around(self) -> str:
        """What makes `run` of the function, as text."""
        if self.mode == "grad":
            numbers = tuple(i for i, (_, x) in enumerate(self.inputs) if "float" in x.dtype)
            return (
                "def total(*values):\n"
                "    return sum(jnp.sum(out.astype('float32')) for out in program(*values))\n"
                f"run = weft.grad(total, argnums={numbers}, allow_int=True)\n"
            )
        if self.mode == "shard_map":
            specs = ", ".join(repr(_spec(x.split)) for _, x in self.inputs)
            return (
                f"mesh = weft.make_mesh(({DEVICES},), ('i',))\n"
                "P = weft.sharding.PartitionSpec\n"
                f"run = weft.shard_map(program, mesh=mesh, in_specs=({specs},), out_specs=P('i'))\n"
            )
        return "run = program\n"

    def arguments(self) -> list[Any]:
        """The inputs as arrays, split over devices if the program says so."""
        found = []
        for _, x in self.inputs:
            value = jnp.asarray(x.value(), dtype=x.dtype)
            if self.mode == "sharded":
                mesh = weft.make_mesh(self.mesh, ("i", "j")[: len(self.mesh)])
                spec = _spec(x.split)
                after = x.split is not None and (x.split + 1) % len(x.shape)
                if len(self.mesh) > 1 and after and x.shape[after] % self.mesh[1] == 0:
                    spec = P(*(*spec, *[None] * (after - len(spec)), "j"))
                value = weft.device_put(value, NamedSharding(mesh, spec))
            found.append(value)
        return found

    def source(self) -> str:
        """Code that runs the program, to be printed."""
        text = [
            "# WEFT_NUM_CPU_DEVICES=8 WEFT_COMPILE_EFFORT=full PYTHONPATH=.:tests python this.py",
            "import numpy as np, weft, weft.numpy as jnp",
            "from weft import lax",
            "from compiler_inputs import Input",
            "from compiler_programs import Program",
            "",
            self.body() + self.around(),
            f"described = {self!r}",
            "arguments = described.arguments()",
        ]
        for i, (name, x) in enumerate(self.inputs):
            value = x.value()
            shown = np.array2string(value, separator=", ", threshold=40, floatmode="unique")
            text.append(f"# arguments[{i}] ({name}) = {shown} {x.dtype}".replace("\n", "\n#   "))
        text.append("print(*weft.jit(run).lower(*arguments).compile()(*arguments), sep='\\n')")
        return "\n".join(text)


def _spec(split: int | None) -> Any:
    return P() if split is None else P(*[None] * split, "i")


# ---- drawing -------------------------------------------------------------------------------

DTYPES = ["float32"] * 11 + ["float64"] * 3 + ["bfloat16"] * 2 + ["float16"] * 2 + ["int32"] * 2
DTYPES += ["int8", "uint8", "bool", "complex64"]
KINDS = ["grid"] * 8 + ["special"] * 4 + ["one"] * 2 + ["normal"] * 4 + ["wide", "huge"]
MODES = ["jit"] * 12 + ["grad"] * 2 + ["sharded"] * 6 + ["shard_map"] * 2


def draw(seed: int) -> Program:
    """The program of a seed."""
    d = Draw(seed)
    mode, dtype = d.one(*MODES), d.one(*DTYPES)
    if mode == "grad" and "float" not in dtype:
        dtype = "float32"
    blocks = mode == "shard_map"
    for _ in range(d.one(1, 1, 1, 2, 2)):
        shape, split = drawn_shape(d), None
        if mode in ("sharded", "shard_map") and shape and (d.chance(0.8) or not d.inputs):
            split = d.number(0, len(shape) - 1)
            shape = tuple(n + -n % DEVICES if k == split else n for k, n in enumerate(shape))
        d.add_input(shape, dtype, d.one(*KINDS), split, blocks)
    if d.chance(0.4):
        d.add_input((d.number(1, 5),), "int32", "places", None, blocks)
    table = IN_BLOCKS if blocks else LINES
    wanted = d.number(1, 4)
    with weft.enable_x64(dtype == "float64"):
        types = _types_in_blocks(d) if blocks else _types(d)
        for _ in range(4 * wanted):
            if len(d.lines) < wanted:
                (line,) = d.rng.choices(list(table), list(table.values()))
                with contextlib.suppress(NoValue):
                    expression = line(d)
                    if expression is not None:
                        d.add_line(expression, types)
    return finished(d, mode)


def drawn_shape(d: Draw) -> tuple[int, ...]:
    shape = [d.one(*SMALL) for _ in range(d.one(0, 1, 1, 2, 2, 2, 3))]
    if shape and d.chance(0.3):
        large, rest = d.number(0, len(shape) - 1), d.one(*LARGE)
        shape = [rest if k == large else min(n, 4) for k, n in enumerate(shape)]
        while prod(shape) > MOST_ELEMENTS:
            shape = [n if k == large else max(1, n // 2) for k, n in enumerate(shape)]
    return tuple(shape)


def _types(d: Draw) -> Callable[[str], Any]:
    def types(expression: str) -> Any:
        names = sorted(set(re.findall(r"\bv\d+\b", expression)))
        function = eval(f"lambda {', '.join(names)}: {expression}", dict(_NAMES))
        return weft.eval_shape(function, *(d.types[n] for n in names))

    return types


def _types_in_blocks(d: Draw) -> Callable[[str], Any]:
    """As blocks have them: a line is not looked at alone, since what varies decides too."""

    def types(expression: str) -> Any:
        names = sorted(set(re.findall(r"\bv\d+\b", expression)))
        function = eval(f"lambda {', '.join(names)}: {expression}", dict(_NAMES))
        mesh = weft.make_mesh((DEVICES,), ("i",))
        shapes = []

        def body(*values: Any) -> Any:
            shapes.append(
                weft.ShapeDtypeStruct(values and function(*values).shape, function(*values).dtype)
            )
            return values

        specs = tuple(P() for _ in names)
        run = weft.shard_map(body, mesh=mesh, in_specs=specs, out_specs=specs)
        weft.eval_shape(run, *(d.types[n] for n in names))
        return shapes[0]

    return types


_NAMES = {"jnp": jnp, "lax": lax, "np": np, "weft": weft}


def finished(d: Draw, mode: str) -> Program:
    """The program of what was drawn: its results are the values that no line reads, and now and
    then one more."""
    made = [name for name, _ in d.lines]
    outputs = [name for name in made if name not in d.read]
    if made and d.chance(0.2):
        outputs.append(d.rng.choice(made))
    if not outputs:
        outputs = [d.inputs[0][0]]
    if mode == "shard_map":
        # Each device's result is a row of the whole.
        d.lines += [(f"r{k}", f"{name}[None]") for k, name in enumerate(dict.fromkeys(outputs))]
        outputs = [name for name, _ in d.lines if name.startswith("r")]
    if mode == "grad":
        outputs = [n for n in outputs if n in d.types and "float" in str(d.types[n].dtype)]
        if not outputs:
            mode, outputs = "jit", made[-1:] or [d.inputs[0][0]]
    mesh = d.one((DEVICES,), (DEVICES // 2, 2)) if mode == "sharded" else (DEVICES,)
    return Program(tuple(d.inputs), tuple(d.lines), tuple(dict.fromkeys(outputs)), mode, mesh)
