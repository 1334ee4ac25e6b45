"""Comparison of two runs: roles that changed, and ranks that agree."""
