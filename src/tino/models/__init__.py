"""Models: one class for the DeepONet family, recipes by name, and their files."""
