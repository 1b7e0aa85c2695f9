"""Answers `import jax` with weft: see weft.as_jax, and docs/ecosystem.md of weft."""

import sys

STANDS_FOR_WEFT = True

import weft.as_jax  # noqa: E402, F401

# This module gives its place to the overlay that `import weft.as_jax` would have put there.
del sys.modules["jax"]
import jax  # noqa: E402, F401
