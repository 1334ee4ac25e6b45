"""Pretraining: translation and language models from scratch."""
