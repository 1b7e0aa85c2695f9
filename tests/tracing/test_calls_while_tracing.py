"""How many calls of Python functions tracing costs, for fifty functions.

tests/data/tracing_calls.json has the counts, taken at the second call of a traced function. A count
that is larger than the recorded one fails; after a change for the better,

    python tests/tracing/test_calls_while_tracing.py

records the counts anew. The row "nothing" is what tracing itself costs.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import weft
import weft.nn
import weft.numpy as jnp
import weft.scipy.linalg as sla
import weft.scipy.special as special
import weft.scipy.stats as stats
from weft import lax, random

RECORD = pathlib.Path(__file__).parent.parent / "data" / "tracing_calls.json"
X = np.linspace(0.5, 2.0, 9, dtype=np.float32).reshape(3, 3)
M = X @ X.T + np.eye(3, dtype=np.float32)
K = random.key(0)
PROGRAMS = {
    "nothing": (lambda x: x, X),
    "lax.reduce_sum": (lambda x: lax.reduce_sum(x, (0, 1)), X),
    "x * x + 1": (lambda x: x * x + 1, X),
    "sin": (jnp.sin, X),
    "sum": (jnp.sum, X),
    "sum axis": (lambda x: jnp.sum(x, axis=1, keepdims=True), X),
    "prod": (jnp.prod, X),
    "max": (jnp.max, X),
    "argmax": (jnp.argmax, X),
    "mean": (jnp.mean, X),
    "var": (jnp.var, X),
    "std": (jnp.std, X),
    "nanmean": (jnp.nanmean, X),
    "median": (jnp.median, X),
    "quantile": (lambda x: jnp.quantile(x, 0.3), X),
    "average": (lambda x: jnp.average(x, 0, x[0]), X),
    "cov": (jnp.cov, X),
    "corrcoef": (jnp.corrcoef, X),
    "cumsum": (jnp.cumsum, X),
    "diff": (jnp.diff, X),
    "sort": (jnp.sort, X),
    "argsort": (jnp.argsort, X),
    "searchsorted": (lambda x: jnp.searchsorted(x[0], x), X),
    "isclose": (lambda x: jnp.isclose(x, x + 1), X),
    "where": (lambda x: jnp.where(x > 1, x, 0), X),
    "clip": (lambda x: jnp.clip(x, 0, 1), X),
    "reshape": (lambda x: jnp.reshape(x, (9,)), X),
    "transpose": (jnp.transpose, X),
    "concatenate": (lambda x: jnp.concatenate([x, x + 1]), X),
    "stack": (lambda x: jnp.stack([x, x + 1]), X),
    "pad": (lambda x: jnp.pad(x, 1), X),
    "roll": (lambda x: jnp.roll(x, 1), X),
    "tile": (lambda x: jnp.tile(x, (2, 1)), X),
    "take": (lambda x: jnp.take(x, np.array([0, 2]), 0), X),
    "diag": (jnp.diag, X),
    "dot": (lambda x: jnp.dot(x, x + 1), X),
    "einsum": (lambda x: jnp.einsum("ij,jk->ik", x, x + 1), X),
    "tensordot": (lambda x: jnp.tensordot(x, x + 1, 1), X),
    "interp": (lambda x: jnp.interp(x, x[0], x[1]), X),
    "convolve": (lambda x: jnp.convolve(x[0], x[1]), X),
    "polyval": (lambda x: jnp.polyval(x[0], x), X),
    "linalg.norm": (jnp.linalg.norm, X),
    "linalg.inv": (jnp.linalg.inv, M),
    "linalg.det": (jnp.linalg.det, M),
    "scipy.linalg.lu": (sla.lu, M),
    "scipy.special.logsumexp": (special.logsumexp, X),
    "scipy.special.xlogy": (lambda x: special.xlogy(x, x + 1), X),
    "scipy.stats.norm.logpdf": (stats.norm.logpdf, X),
    "nn.softmax": (weft.nn.softmax, X),
    "nn.gelu": (weft.nn.gelu, X),
    "random.normal": (lambda k: random.normal(k, (3,)), K),
    "random.laplace": (lambda k: random.laplace(k, (3,)), K),
}


def calls_of(program, argument) -> int:
    """The calls of Python functions at the second tracing of a program."""
    traced = weft.make_jaxpr(program)
    argument = jnp.asarray(argument)
    traced(argument)
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        traced(argument)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="3.12 inlines comprehensions")
def test_tracing_takes_no_more_calls_than_recorded():
    # In a process of its own: the settings of tests, and caches that they fill, change the counts.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "XLA_"))}
    command = [sys.executable, __file__, "show"]
    out = subprocess.run(command, env=environment, capture_output=True, check=True)
    found, recorded = json.loads(out.stdout), json.loads(RECORD.read_text())
    assert [*recorded] == [*found]
    more = {name: count for name, count in found.items() if count > recorded[name]}
    assert not more, {name: recorded[name] for name in more}


if __name__ == "__main__":
    text = json.dumps({name: calls_of(*program) for name, program in PROGRAMS.items()}, indent=1)
    print(text)
    if sys.argv[1:] != ["show"]:
        RECORD.write_text(text + "\n")
