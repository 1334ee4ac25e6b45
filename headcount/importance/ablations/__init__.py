"""Measured ablation: losses and scores of a model with some of its heads closed."""
