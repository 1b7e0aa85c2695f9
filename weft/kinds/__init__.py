"""What the arguments of functions of arrays are, and the functions that are declared by it."""
