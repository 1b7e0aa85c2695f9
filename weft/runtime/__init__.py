"""The seam to XLA: devices, buffers, building and compiling modules.

Only this package knows jaxlib. None of its modules is imported here. What has to come before the
first import of jaxlib stands here, because every import of a part of the package passes this file:
XLA's C++ log reads its level from the environment while the libraries are loaded, and a user's own
choice goes first.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
