"""The files that documents write into a run's folder."""

FILES = ("curve.parquet", "curve.md", "curve.json")
"""Files that a curve writes, besides `figures/` and `state/`."""
