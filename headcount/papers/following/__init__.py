"""Following: what heads do and are worth at each checkpoint of a training."""
