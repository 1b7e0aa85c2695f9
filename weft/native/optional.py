"""The compiled module for calls that were made before: optional, and equal to the Python beside it.

A jitted function that is called again does little: it looks at its arguments, finds the executable,
starts it, and wraps its results. In Python that takes as long as a small executable runs. The
module `_calls` does these four things and nothing else; whatever it does not know goes to Python.
It is built at installation where there is a C compiler. Without it, or with WEFT_COMPILED_CALLS=0
in the environment, everything runs in Python.
"""

import os
from typing import Any

__all__ = ["calls"]

# The module `_calls`, or None.
calls: Any = None
if os.environ.get("WEFT_COMPILED_CALLS") != "0":
    try:
        from weft.native import _calls as calls  # type: ignore[attr-defined,no-redef]
    except ImportError:
        pass
