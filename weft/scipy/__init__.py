"""Functions with the names and arguments of SciPy, a module for each of its parts."""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on, load_on_first_use

if TYPE_CHECKING:
    from weft.scipy import cluster as cluster
    from weft.scipy import fft as fft
    from weft.scipy import integrate as integrate
    from weft.scipy import interpolate as interpolate
    from weft.scipy import linalg as linalg
    from weft.scipy import ndimage as ndimage
    from weft.scipy import optimize as optimize
    from weft.scipy import signal as signal
    from weft.scipy import sparse as sparse
    from weft.scipy import spatial as spatial
    from weft.scipy import special as special
    from weft.scipy import stats as stats

# Imported on first use, so that users of one part do not pay for the others.
_LAZY_MODULES = (
    "weft.scipy.cluster",
    "weft.scipy.fft",
    "weft.scipy.integrate",
    "weft.scipy.interpolate",
    "weft.scipy.linalg",
    "weft.scipy.ndimage",
    "weft.scipy.optimize",
    "weft.scipy.signal",
    "weft.scipy.sparse",
    "weft.scipy.spatial",
    "weft.scipy.special",
    "weft.scipy.stats",
)

# Type checkers see the imports above, and that there are no other names.
if not TYPE_CHECKING:
    __all__ = handed_on(globals(), _LAZY_MODULES)
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES)
