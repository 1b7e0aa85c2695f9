"""Tools for those who add primitives to weft: checking that the rules of one agree."""
