"""Optimization: how one step of training is made."""
