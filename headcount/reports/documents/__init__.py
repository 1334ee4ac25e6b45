"""Documents in Markdown that set numbers of a run side by side."""
