"""Objects that stand for modules of JAX, and the finder by which `import jax` gets them."""

from __future__ import annotations

import fnmatch
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any

from weft.as_jax.modules import MODULES, anchor, is_overlay
from weft.as_jax.private.private_modules import MISSING
from weft.as_jax.release import __version__ as VERSION
from weft.base.missing_names import reason

__all__ = ["Finder", "MissingJaxModule", "MissingJaxName", "Overlay", "RealJaxImported", "install"]


class MissingJaxName(AttributeError):
    """A name of JAX that weft does not have."""


class MissingJaxModule(ModuleNotFoundError):
    """A module of JAX that weft does not have."""


class RealJaxImported(ImportError):
    """`weft.as_jax` was asked for in a process that has imported the real jax."""


class Overlay(types.ModuleType):
    """A module that takes its names from others on first use. It keeps each name, so that the
    second access is that of any module, and programs may replace the object."""

    __path__: list[str]

    def __init__(self, name: str, sources: tuple[str, ...]) -> None:
        super().__init__(name, f"What weft has of {name}, from {' and '.join(sources)}.")
        self.__path__ = []
        self._sources = sources

    def __getattr__(self, name: str) -> Any:
        if name in ("__all__", "__dir__"):
            return [out for out in dir(self) if not out.startswith("_")]
        # First, since a module of weft may have the name of one of JAX's: `weft.core` is another.
        if f"{self.__name__}.{name}" in MODULES:
            return importlib.import_module(f"{self.__name__}.{name}")
        # The import system asks for names of its own, which the sources answer for themselves.
        if not (name.startswith("__") and name.endswith("__")) or name.startswith("__version"):
            for source in self._sources:
                try:
                    out = _attribute(source, name)
                except AttributeError:
                    continue
                setattr(self, name, out)
                return out
        raise MissingJaxName(missing(self.__name__, name), name=name, obj=self)

    def __dir__(self) -> list[str]:
        names = set(vars(self)) - {"_sources"}
        for source in self._sources:
            names.update(_names(source))
        inner = (other.rpartition(".") for other in MODULES)
        names.update(last for parent, _, last in inner if parent == self.__name__)
        return sorted(names)


def parse_source(source: str) -> tuple[str, dict[str, str]]:
    """The module of a source, and of "module:a,b=c" its names and what the module calls them."""
    module, _, names = source.partition(":")
    pairs = (name.partition("=") for name in names.split(",") if name)
    return module, {name: own or name for name, _, own in pairs}


def _attribute(source: str, name: str) -> Any:
    """The attribute of a source. Raises AttributeError if it has none of that name."""
    module, renamed = parse_source(source)
    if renamed and name not in renamed:
        raise AttributeError(name)
    return getattr(importlib.import_module(module), renamed.get(name, name))


def _names(source: str) -> Iterable[str]:
    path, renamed = parse_source(source)
    module = importlib.import_module(path)
    return renamed or getattr(module, "__all__", ()) or dir(module)


def missing(module: str, name: str) -> str:
    """The message for a name that a module of JAX has and weft lacks."""
    why = reason(module, name) or next(
        (text for full, text in MISSING.items() if fnmatch.fnmatchcase(f"{module}.{name}", full)),
        None,
    )
    because = f" ({why})" if why else ""
    return (
        f"weft has no {module}.{name}{because}: {anchor(module)} lists the names of JAX {VERSION} "
        "that are missing, why, and what to use"
    )


class _Loader(importlib.abc.Loader):
    """Gives the import system a module that exists, or a new overlay."""

    def __init__(self, spec_of_its_own: Any = None) -> None:
        self._spec = spec_of_its_own

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        if is_overlay(spec.name):
            return Overlay(spec.name, MODULES[spec.name])
        (source,) = MODULES[spec.name]
        module = importlib.import_module(source)
        # The import system writes its specification into what it is given; see exec_module.
        self._spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing runs: the module has run under its own name, which it keeps."""
        if self._spec is not None:
            module.__spec__ = self._spec


class Finder(importlib.abc.MetaPathFinder):
    """Answers `jax` and all below it: with a module of weft, an overlay, or a clear error."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """The specification of a module of JAX; None for any other name. Raises MissingJaxModule
        for one that weft does not have."""
        if fullname != "jax" and not fullname.startswith("jax."):
            return None
        if fullname not in MODULES:
            # Without `name=`: of an error that has the name of the module, `from jax import x`
            # takes no notice, and says only that it cannot import the name.
            parent, _, name = fullname.rpartition(".")
            raise MissingJaxModule(missing(parent, name))
        # An alias of a package is one itself: `import jax.a.b` asks its parent for a path.
        return importlib.machinery.ModuleSpec(fullname, _Loader(), is_package=is_overlay(fullname))


def install() -> None:
    """Makes `import jax` give weft in this process, from now on; a second call changes nothing.
    Raises RealJaxImported if the real jax has been imported."""
    present = sys.modules.get("jax")
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    if present is not None and not _is_stand_in(present):
        raise RealJaxImported(
            f"the real jax ({getattr(present, '__version__', 'no version')}, "
            f"{getattr(present, '__file__', 'no file')}) was imported before weft.as_jax; import "
            "weft.as_jax first, or run the program by `python -m weft.as_jax program.py`"
        )
    sys.meta_path.insert(0, Finder())


def _is_stand_in(module: types.ModuleType) -> bool:
    """Whether a module is compat/jax, the distribution that only imports weft.as_jax."""
    return getattr(module, "STANDS_FOR_WEFT", False) is True
