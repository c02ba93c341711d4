"""Checks of the tree itself, which `make lint` runs; they need only the standard library."""
