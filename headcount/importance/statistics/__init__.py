"""Statistics of scores: significance, correlation, and agreement between methods."""
