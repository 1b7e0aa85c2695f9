"""The parts of `digits.py` that are not about weft: reading files, splitting rows, pictures."""
