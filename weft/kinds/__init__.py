"""Kinds of arguments, and the functions of arrays that are declared with them."""
