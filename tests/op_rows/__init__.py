"""The rows of the op table, one file per chapter; see `op_table`."""
