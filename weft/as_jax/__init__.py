"""Programs and libraries written for JAX, run on weft as they are.

    import weft.as_jax   # from here on, `import jax` and `import jax.numpy` give weft's modules

A program that is not to be touched is run by `python -m weft.as_jax program.py arguments` or
`python -m weft.as_jax -m module arguments`. What is missing of JAX raises an error that names it
and the section of docs/parity.md that says why. docs/ecosystem.md is the page for users.

>>> import weft.as_jax
>>> import jax, jax.numpy
>>> jax.Array is weft.Array and jax.numpy is weft.numpy
True
"""

from weft.as_jax.overlay import MissingJaxModule, MissingJaxName, RealJaxImported, install
from weft.as_jax.private.private_attributes import add_private_attributes
from weft.as_jax.settings import follow_jax

__all__ = ["MissingJaxModule", "MissingJaxName", "RealJaxImported", "follow_jax", "install"]

install()
follow_jax()
add_private_attributes()
