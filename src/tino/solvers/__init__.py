"""Solvers as plain functions: batched over samples, in float64."""
