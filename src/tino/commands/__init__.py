"""One frozen record per command: its fields are the arguments, its docstrings the help."""
