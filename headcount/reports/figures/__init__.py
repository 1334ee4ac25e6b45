"""Figures of a run, as SVG, PNG and PDF."""
