"""Artifact: the folder of a compact model, which loads with and without this package."""
