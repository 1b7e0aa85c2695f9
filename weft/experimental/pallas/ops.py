"""The kernels that come with Pallas: masks can be described, kernels raise at the call."""

from __future__ import annotations

from weft.base.facades import public_names
from weft.experimental.pallas.kernels import Description, kernel_function

# fmt: off
__all__ = [
    "BlockSizes", "CausalMask", "ChunkedCausalMask", "FullMask", "LocalMask", "LogicalAnd",
    "LogicalOr", "Mask", "MultiHeadMask", "NumpyMask", "QKVLayout", "SegmentIds",
    "flash_attention", "flash_attention_kernel", "gmm", "make_splash_mha",
    "make_splash_mha_single_device", "make_splash_mqa", "make_splash_mqa_single_device", "mha",
    "mha_reference", "paged_attention", "ragged_paged_attention", "tgmm",
]
# fmt: on

__dir__ = public_names(globals())


class BlockSizes(Description):
    """A part of the description of an attention kernel."""


class CausalMask(Description):
    """A part of the description of an attention kernel."""


class ChunkedCausalMask(Description):
    """A part of the description of an attention kernel."""


class FullMask(Description):
    """A part of the description of an attention kernel."""


class LocalMask(Description):
    """A part of the description of an attention kernel."""


class LogicalAnd(Description):
    """A part of the description of an attention kernel."""


class LogicalOr(Description):
    """A part of the description of an attention kernel."""


class Mask(Description):
    """A part of the description of an attention kernel."""


class MultiHeadMask(Description):
    """A part of the description of an attention kernel."""


class NumpyMask(Description):
    """A part of the description of an attention kernel."""


class QKVLayout(Description):
    """A part of the description of an attention kernel."""


class SegmentIds(Description):
    """A part of the description of an attention kernel."""


flash_attention = kernel_function("pallas.ops.flash_attention")
flash_attention_kernel = kernel_function("pallas.ops.flash_attention_kernel")
gmm = kernel_function("pallas.ops.gmm")
make_splash_mha = kernel_function("pallas.ops.make_splash_mha")
make_splash_mha_single_device = kernel_function("pallas.ops.make_splash_mha_single_device")
make_splash_mqa = kernel_function("pallas.ops.make_splash_mqa")
make_splash_mqa_single_device = kernel_function("pallas.ops.make_splash_mqa_single_device")
mha = kernel_function("pallas.ops.mha")
mha_reference = kernel_function("pallas.ops.mha_reference")
paged_attention = kernel_function("pallas.ops.paged_attention")
ragged_paged_attention = kernel_function("pallas.ops.ragged_paged_attention")
tgmm = kernel_function("pallas.ops.tgmm")
