"""Data of a training: rows, splits, examples, and batches by length."""
