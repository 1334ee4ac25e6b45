"""What each result shows, in blocks that all renderers print."""
