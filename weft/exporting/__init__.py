"""Exported programs: what `weft.export` shows."""
