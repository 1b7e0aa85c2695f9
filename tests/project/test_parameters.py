"""Parameters are described: each of the most used functions', and a share of all."""

from __future__ import annotations

import functools
import re

import pytest

from tools import parameters

pytestmark = pytest.mark.fast

# Functions each of whose parameters has a meaning in the docstring, so that editors show it too.
DESCRIBED = """
weft: jit grad value_and_grad vmap jvp vjp linearize hessian jacfwd jacrev checkpoint custom_jvp
  custom_vjp shard_map device_put make_mesh
weft.lax: scan cond while_loop fori_loop switch map associative_scan
weft.export: export
weft.distributed: initialize
weft.checkpoints: save restore Checkpoints
weft.numpy: array asarray einsum
weft.random: key split fold_in normal uniform randint bernoulli categorical permutation choice
  truncated_normal
"""
# The share of all parameters that have a meaning, and of those that the docstring gives it. They
# only go up: `python tools/parameters.py` prints them, per module too.
SHARE = 0.99
OWN_SHARE = 0.57


@functools.cache
def rows():
    """The table of every public function, by path; one that has several names stands under each."""
    return {entry.path: table for entry, table in parameters.tables()}


def described():
    for line in re.sub(r"\n +", " ", DESCRIBED).strip().splitlines():
        module, names = line.split(": ")
        yield from (f"{module}.{name}" for name in names.split())


@pytest.mark.parametrize("path", list(described()))
def test_every_parameter_of_a_much_used_function_has_a_meaning(path):
    table = rows()[path]
    assert table, "no parameters: is the signature readable?"
    assert [row.name for row in table if row.source != "docstring"] == []
    assert all(len(row.meaning.split()) > 1 for row in table)


def test_the_share_of_described_parameters_does_not_fall():
    found = [row for table in rows().values() for row in table]
    share = sum(bool(row.meaning) for row in found) / len(found)
    own = sum(row.source == "docstring" for row in found) / len(found)
    assert share >= SHARE and own >= OWN_SHARE, f"{share:.3f} and {own:.3f} of {len(found)}"


def test_shared_meanings_are_of_use():
    """Each of the patterns is that of some function, and each meaning is shown somewhere."""
    shown = {row.meaning for table in rows().values() for row in table if row.source == "shared"}
    shared = parameters.read_shared()
    unused = [(p, name) for p, names in shared.items() for name, said in names.items()
              if said not in shown]  # fmt: skip
    assert unused == []


# ---- how docstrings are read ---------------------------------------------------------------


def function(x, y=1, *args, mode="low", size, **options):
    """Does something with `x`, which stays.

    The second sentence names `y`; it is about `y=1`. And `*args` follow.
    mode: "low" or "high". Raises ValueError for others.

    Args:
        size (int): How many there are, and
            what they are.
        options: The rest.

    Returns nothing.
    """


def test_three_ways_to_say_what_a_parameter_means():
    table = {
        row.name: row
        for row in parameters.table(function, function.__doc__.replace("\n    ", "\n"), "m.f", {})
    }
    assert table["x"].meaning == "Does something with `x`, which stays."
    assert table["y"].meaning == "The second sentence names `y`; it is about `y=1`."
    assert table["*args"].meaning == "And `*args` follow."
    assert table["mode"].meaning == '"low" or "high".'
    assert table["size"] == (
        "size",
        "int",
        "",
        "How many there are, and what they are.",
        "docstring",
    )
    assert (table["y"].default, table["mode"].default) == ("1", "'low'")


def test_what_is_not_said_is_looked_up():
    shared = {"m": {"x": "An array."}, r"m\.f": {"x": "Ours."}, "other": {"x": "No."}}
    (x, y) = parameters.table(lambda x, y: None, "Nothing.", "m.f", shared)
    assert (x.meaning, x.source) == ("Ours.", "shared")
    assert (y.meaning, y.source) == ("", "")


def test_a_broken_section_is_noticed():
    with pytest.raises(ValueError, match="no `name: meaning`"):
        parameters.sections("Does it.\n\nArgs:\n    without a colon")
