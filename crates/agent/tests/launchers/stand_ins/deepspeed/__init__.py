"""Stands in for the package itself, which imports torch; launcher/ beside it is the real one."""
