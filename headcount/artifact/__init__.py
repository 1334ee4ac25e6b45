"""Artifact: the folder of a compact model, which loads with or without this package."""
