"""Which transfers of a compiled program hide behind which products: read from its HLO.

A device can send and compute at once. So a transfer costs no time where a product that neither
needs it nor is needed by it runs meanwhile. Two questions are answered. What the program allows is
decided by what depends on what: products and transfers, each one at a time and all equally long,
are scheduled by the longest path that is left (T. C. Hu, "Parallel Sequencing and Assembly Line
Problems", Operations Research 9, 1961), and a transfer is beside the product of its step. What the
compiler chose is the order of the instructions in its text: a transfer has from its start to the
first use of its result. On a CPU transfers are synchronous, so nothing hides, whatever the order.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from weft.errors import WeftValueError, api_boundary
from weft.runtime.hlo_text import Computation, HloModule, Instruction, parse

_TRANSFER = re.compile(
    r"(all-reduce|all-gather|reduce-scatter|collective-permute|all-to-all|collective-broadcast"
    r"|ragged-all-to-all)(-start)?"
)
_DONE = re.compile(r".*-(done|update)")
_PRODUCTS = ("dot", "convolution", "ragged-dot", "scaled-dot")
_PRODUCT_TARGET = re.compile(r"gemm|matmul|dot|conv", re.IGNORECASE)
_CALLED = ("calls", "to_apply", "condition", "body", "branch_computations")
_BRANCHES = ("true_computation", "false_computation")


class Product(NamedTuple):
    """A product of a compiled program: its number in the order of the text, and the user's line.

    number: the position in the text; line: the file and the line number of the user's program.
    """

    number: int
    line: str


class Transfer(NamedTuple):
    """A collective of a compiled program.

    number: in the order of the text; kind: its name, as `collective_permute`; bytes: those of its
    operands on one device; line: the user's. beside: the product that may run at the same time, one
    of its own for each transfer, or None if each product has to wait for it or it for them, or
    has another transfer beside it. between: the products that the compiler put between the start
    of the transfer and the first use of its result.
    """

    number: int
    kind: str
    bytes: int
    line: str
    beside: Product | None
    between: tuple[Product, ...]


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The transfers and products of a compiled program; its text shows which go together.

    transfers: the transfers, in the order of the text; products: the products, in the order of the
    text.
    """

    transfers: tuple[Transfer, ...]
    products: tuple[Product, ...]

    @property
    def exposed(self) -> tuple[Transfer, ...]:
        """The transfers during which no product can run."""
        return tuple(one for one in self.transfers if one.beside is None)

    def __str__(self) -> str:
        hidden = len(self.transfers) - len(self.exposed)
        counts = f"{_count(self.transfers, 'transfer')}, {_count(self.products, 'product')}"
        lines = [f"{counts}; {hidden} of the transfers may run beside a product of their own"]
        for one in self.transfers:
            partner = "no product"
            if one.beside is not None:
                partner = f"product {one.beside.number}, {one.beside.line}"
            lines.append(
                f"  {one.kind} {one.number}, {one.bytes:,} bytes, {one.line}: beside {partner}"
            )
        return "\n".join(lines)


def _count(found: tuple[Any, ...], what: str) -> str:
    return f"{len(found)} {what}{'' if len(found) == 1 else 's'}"


@api_boundary
def schedule(program: Any) -> Schedule:
    """Reads the transfers and products of a compiled program.

    program: what `weft.jit(f).lower(...).compile()` returns, or its text of HLO. Loops, branches
    and calls that communicate are looked into, each for itself; where they do not, they count as
    one product if there is one in them. Raises WeftValueError for text that is not compiled HLO.

    >>> print(
    ...     schedule('''HloModule m, is_scheduled=true, num_partitions=2
    ...
    ... ENTRY %main (x: f32[4,4]) -> (f32[4,4], f32[4,4]) {
    ...   %x = f32[4,4]{1,0} parameter(0)
    ...   %next = f32[4,4]{1,0} collective-permute(%x), source_target_pairs={{0,1},{1,0}}
    ...   %first = f32[4,4]{1,0} dot(%x, %x)
    ...   %second = f32[4,4]{1,0} dot(%next, %x)
    ...   ROOT %both = (f32[4,4]{1,0}, f32[4,4]{1,0}) tuple(%first, %second)
    ... }''')
    ... )
    1 transfer, 2 products; 1 of the transfers may run beside a product of their own
      collective_permute 1, 64 bytes, an unknown line: beside product 1, an unknown line
    """
    text = program if isinstance(program, str) else program.as_text()
    if "is_scheduled=true" not in text.split("\n", 1)[0]:
        message = "schedule takes the text of a compiled program, whose instructions are in order"
        wanted = "HLO with is_scheduled=true, as weft.jit(f).lower(...).compile() has it"
        got = f"{text.splitlines()[0][:80] if text else ''!r}"
        raise WeftValueError(message, got=got, wanted=wanted)
    module = parse(text)
    transfers: list[Transfer] = []
    products: list[Product] = []
    for computation in _communicating_callees(module, module.entry):
        graph = _Graph(module, computation, len(products), len(transfers))
        products += graph.products.values()
        transfers += graph.read()
    return Schedule(tuple(transfers), tuple(products))


def _callees(one: Instruction) -> list[str]:
    return one.computations(*_CALLED, *_BRANCHES)


def _communicating_callees(module: HloModule, name: str) -> Iterator[Computation]:
    """A computation and its callees that communicate, without reductions."""
    computation = module.computations[name]
    yield computation
    for one in computation.instructions:
        if _kind(module, one) is None:
            for inner in _callees(one):
                if inner in module.computations and _holds(module, inner, _is_transfer):
                    yield from _communicating_callees(module, inner)


def _holds(module: HloModule, name: str, is_it: Any) -> bool:
    """Whether a computation, or one of its callees, has a matching instruction."""
    instructions = module.computations[name].instructions if name in module.computations else ()
    return any(
        is_it(one) or any(_holds(module, inner, is_it) for inner in _callees(one))
        for one in instructions
    )


def _is_transfer(one: Instruction) -> bool:
    return _TRANSFER.fullmatch(one.opcode) is not None


def _is_product(one: Instruction) -> bool:
    if one.opcode == "custom-call":
        return _PRODUCT_TARGET.search(one.attribute("custom_call_target")) is not None
    return one.opcode in _PRODUCTS


def _kind(module: HloModule, one: Instruction) -> str | None:
    """The kind of a transfer that an instruction starts, or None."""
    if one.opcode == "async-start":
        inside = [i for name in _callees(one) for i in module.computations[name].instructions]
        kinds = [i.opcode for i in inside if _is_transfer(i)]
        return kinds[0].replace("-", "_") if kinds else None
    return one.opcode.removesuffix("-start").replace("-", "_") if _is_transfer(one) else None


class _Graph:
    """The dependencies within a computation, as far as transfers and products go. A set of
    instructions is an integer whose bits are their positions in the text."""

    def __init__(
        self, module: HloModule, where: Computation, products: int, transfers: int
    ) -> None:
        self.module, self.where, self.first = module, where, transfers + 1
        self.kinds: dict[int, str] = {}
        self.products: dict[int, Product] = {}
        self.needs: list[int] = []
        place_of: dict[str, int] = {}
        for place, one in enumerate(where.instructions):
            kind = _kind(module, one)
            if kind is not None:
                self.kinds[place] = kind
            elif _is_product(one) or self._computes(one):
                number = products + len(self.products) + 1
                self.products[place] = Product(number, module.line(one))
            before = 0
            for operand in one.operands:
                source = place_of.get(operand)
                if source is not None:
                    before |= self.needs[source] | 1 << source
            self.needs.append(before)
            place_of[one.name] = place

    def _computes(self, one: Instruction) -> bool:
        names = _callees(one)
        found = any(_holds(self.module, name, _is_product) for name in names)
        return found and not any(_holds(self.module, name, _is_transfer) for name in names)

    def read(self) -> list[Transfer]:
        pairs = self._steps()
        return [
            Transfer(
                self.first + number,
                kind,
                sum(s.bytes for s in self._sent_shapes(self.where.instructions[place])),
                self.module.line(self.where.instructions[place]),
                self.products.get(pairs.get(place, -1)),
                self._products_between(place),
            )
            for number, (place, kind) in enumerate(self.kinds.items())
        ]

    def _sent_shapes(self, one: Instruction) -> Any:
        shapes = self.where.operand_shapes(one)
        # Further operands of a permutation are the places that it writes to.
        return shapes[:1] if one.opcode.startswith("collective-permute") else shapes

    def _products_between(self, place: int) -> tuple[Product, ...]:
        """The products between the start of a transfer and its use."""
        name = self.where.instructions[place].name
        for later in range(place + 1, len(self.where.instructions)):
            if name in self.where.instructions[later].operands:
                return tuple(p for at, p in self.products.items() if place < at < later)
        return tuple(p for at, p in self.products.items() if place < at)

    def _steps(self) -> dict[int, int]:
        """For each transfer the product in the same step, or None."""
        waiting = sorted({*self.kinds, *self.products})
        heavy = sum(1 << place for place in waiting)
        needs = {place: self.needs[place] & heavy for place in waiting}
        # How many of them stand on the longest path from each on, in the order of the text.
        left = dict.fromkeys(waiting, 1)
        for place in reversed(waiting):
            for source in waiting:
                if needs[place] >> source & 1:
                    left[source] = max(left[source], left[place] + 1)
        done, pairs = 0, {}
        while waiting:
            ready = [place for place in waiting if not needs[place] & ~done]
            step = [
                max(of, key=left.__getitem__)
                for of in (
                    [p for p in ready if p in self.kinds],
                    [p for p in ready if p in self.products],
                )
                if of
            ]
            if len(step) == 2:
                pairs[step[0]] = step[1]
            done |= sum(1 << place for place in step)
            waiting = [place for place in waiting if place not in step]
        return pairs
