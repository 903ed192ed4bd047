"""One frozen record a command: its fields are the arguments, its docstrings the help."""
