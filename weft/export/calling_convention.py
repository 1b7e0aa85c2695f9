"""How exported functions are called, under the names of `jax.export`."""

from __future__ import annotations

from weft import config
from weft.errors import Fix, WeftValueError
from weft.runtime import client

# Arguments and results in order, closed-over arrays first; the numbers are those of JAX 0.10.
maximum_supported_calling_convention_version = 10
minimum_supported_calling_convention_version = 9


def default_export_platform() -> str:
    """The platform that `export` exports for by default: that of the current backend.

    >>> from weft import export
    >>> export.default_export_platform() in ("cpu", "cuda", "rocm", "tpu")
    True
    """
    return str(client.backend().platform)


def chosen_calling_convention() -> int:
    """The version that the setting jax_export_calling_convention_version asks for. Raises
    WeftValueError for one that is not supported."""
    name = "jax_export_calling_convention_version"
    version: int = config.read(name)
    least, most = (
        minimum_supported_calling_convention_version,
        maximum_supported_calling_convention_version,
    )
    if not least <= version <= most:
        raise WeftValueError(
            f"export: there is no calling convention of version {version}",
            got=f"the setting {name}={version}",
            wanted=f"{least} to {most}",
            fix=Fix(
                "setting", f"weft.config.update({name!r}, {most})", {"setting": name, "value": most}
            ),
        )
    return version
