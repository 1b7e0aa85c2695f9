"""treescope: arrays and trees shown as text and as pages, and a summary of each array."""

import jax
import jax.numpy as jnp
import treescope

DISTRIBUTION = "treescope"


def main(timed):
    tree = {
        "weights": jax.random.normal(jax.random.key(0), (6, 4)),
        "layers": [jnp.zeros(3), {"mask": jnp.array([True, False]), "name": "last"}],
        "shape": jax.ShapeDtypeStruct((2, 3), jnp.bfloat16),
    }
    show = timed(treescope.render_to_text)
    for _ in range(3):
        text = show(tree)
    page = treescope.render_to_html(tree)
    picture = treescope.render_array(tree["weights"])
    return {
        "text": len(text) > 50,
        "names": all(name in text for name in ("weights", "mask", "bfloat16", "float32(6, 4)")),
        "page": "treescope" in page,
        "picture": len(str(picture._repr_html_())) > 100,
        "mean": f"{float(tree['weights'].mean()):.2g}" in text,
    }
