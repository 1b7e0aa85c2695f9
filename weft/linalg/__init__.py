"""Linear algebra with the names of NumPy: what `weft.numpy.linalg` shows, a chapter a file."""
