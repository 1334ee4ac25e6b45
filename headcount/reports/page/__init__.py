"""The page: one offline HTML file that shows a run."""
