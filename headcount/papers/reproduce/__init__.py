"""Reproductions: a paper's tables and figures, our numbers beside the published ones."""
