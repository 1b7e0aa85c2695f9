"""Records how many bytes the gradient of a scan over layers keeps per step in JAX.

Run by the environment that has JAX, from the root of the project:

    .venv-bench-jax/bin/python tools/record_residuals.py jax

It writes tools/data/residual_bytes.json: for each layer of tests/support/residual_layers.py, and
for each elementwise function, the bytes of what the forward loop stacks for the backward one.
"""

from __future__ import annotations

import importlib
import json
import pathlib
import sys
from types import SimpleNamespace
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tools" / "data" / "residual_bytes.json"
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests")]

from residual_layers import LENGTH, Layer, all_layers, loss_of  # noqa: E402


def main() -> None:
    """Writes the file."""
    (package,) = sys.argv[1:]
    jax = importlib.import_module(package)
    names = SimpleNamespace(
        jnp=jax.numpy,
        nn=jax.nn,
        lax=jax.lax,
        random=jax.random,
        special=importlib.import_module(f"{package}.scipy.special"),
    )
    found: dict[str, int] = {}
    for name, layer in all_layers().items():
        try:
            found[name] = _kept(jax, names, layer)
        except Exception as error:  # noqa: BLE001 - what JAX refuses is no row
            print(f"{name}: {type(error).__name__}: {str(error)[:80]}")
    DATA.write_text(json.dumps({"jax": jax.__version__, "bytes": found}, indent=1) + "\n")


def _kept(jax: Any, names: SimpleNamespace, layer: Layer) -> int:
    loss = loss_of(layer, names)
    shape = jax.ShapeDtypeStruct
    parameters = {k: shape((LENGTH, *v), "float32") for k, v in layer.parameters.items()}
    jaxpr = jax.make_jaxpr(jax.grad(loss, (0, 1)))(parameters, shape(layer.shape, "float32"))
    first = next(e for e in jaxpr.eqns if e.primitive.name == "scan")
    kept = first.outvars[first.params["num_carry"] :]
    return sum(v.aval.size * v.aval.dtype.itemsize for v in kept) // LENGTH


if __name__ == "__main__":
    main()
