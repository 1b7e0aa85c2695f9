"""Counting what is in a program: equations of a jaxpr, collectives of a
StableHLO module or of an optimized HLO module."""

import re

# ---- jaxprs -----------------------------------------------------------------


def _subs(value):
    if hasattr(value, "eqns"):
        yield value
    elif hasattr(getattr(value, "jaxpr", None), "eqns"):
        yield value.jaxpr
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from _subs(v)


def count_eqns(jaxpr):
    """(equations at the top level, equations in all, inner jaxprs included)."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    total = 0
    for eqn in jaxpr.eqns:
        total += 1
        for v in eqn.params.values():
            for sub in _subs(v):
                total += count_eqns(sub)[1]
    return len(jaxpr.eqns), total


# ---- collectives ------------------------------------------------------------

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "collective-permute", "all-to-all")

_BITS = {"pred": 8, "i1": 8, "s4": 4, "u4": 4}


def _bytes_of(dtype, dims):
    if dtype in _BITS:
        bits = _BITS[dtype]
    else:
        m = re.search(r"(\d+)", dtype)
        bits = int(m.group(1)) if m else 8
        if dtype.startswith("c"):  # c64 is 64 bits in all; complex<f32> is 2x32
            bits = bits
    n = 1
    for d in dims:
        n *= d
    return n * bits // 8


def _hlo_shapes(text):
    for dt, dims in re.findall(r"\b([a-z]+\d*[a-z0-9]*)\[([\d,]*)\]", text):
        yield _bytes_of(dt, [int(d) for d in dims.split(",") if d])


def _mlir_tensors(text):
    for body in re.findall(r"tensor<([^>]*(?:<[^>]*>)?[^>]*)>", text):
        *dims, dt = body.split("x")
        cplx = re.match(r"complex<(\w+)", dt)
        b = _bytes_of(
            cplx.group(1) if cplx else dt.split(",")[0], [int(d) for d in dims if d.isdigit()]
        )
        yield 2 * b if cplx else b


def collectives_hlo(text):
    """{kind: (count, payload bytes per device)} of an optimized HLO text.
    Payload is the larger of what goes in and what comes out, per device."""
    out = {k: [0, 0] for k in KINDS}
    pat = re.compile(
        r"^\s*(?:ROOT )?%?[\w.\-]+ = (.*?) "
        r"(all-reduce|all-gather|reduce-scatter|collective-permute|all-to-all)"
        r"(?:-start)?\((.*)$",
        re.M,
    )
    for m in pat.finditer(text):
        res, kind, rest = m.groups()
        size = sum(_hlo_shapes(res))
        group = 1
        g = re.search(r"replica_groups=\{\{([\d,]*)\}", rest)
        if g:
            group = len(g.group(1).split(","))
        else:
            g = re.search(r"replica_groups=\[(\d+),(\d+)\]", rest)
            if g:
                group = int(g.group(2))
        if kind == "reduce-scatter":
            size *= group
        out[kind][0] += 1
        out[kind][1] += size
    return {k: tuple(v) for k, v in out.items() if v[0]}


def collectives_stablehlo(text):
    """The same for a StableHLO text (static counts; a collective in a called
    function counts once)."""
    out = {k: [0, 0] for k in KINDS}
    names = {
        "all_reduce": "all-reduce",
        "all_gather": "all-gather",
        "reduce_scatter": "reduce-scatter",
        "collective_permute": "collective-permute",
        "all_to_all": "all-to-all",
    }
    pat = re.compile(
        r"stablehlo\.(all_reduce|all_gather|reduce_scatter|"
        r"collective_permute|all_to_all)\"?\("
    )
    for m in pat.finditer(text):
        kind = names[m.group(1)]
        tail = text[m.end() :]
        line_end = tail.find("\n")
        if kind in ("all-reduce", "reduce-scatter"):  # ops with a region
            k = tail.find("}) : ")
            sig = tail[k + 5 : tail.find("\n", k)]
        else:
            line = tail[:line_end]
            sig = line[line.rfind(" : ") + 3 :]
        a, _, b = sig.partition(" -> ")
        out[kind][0] += 1
        out[kind][1] += max(sum(_mlir_tensors(a)), sum(_mlir_tensors(b)))
    return {k: tuple(v) for k, v in out.items() if v[0]}
