"""Training of translation and language models from scratch, with transformers' Trainer."""

from headcount.training.architecture import causal_model, masked_model, translation_model
from headcount.training.job import Job
from headcount.training.pieces import learn_pieces
from headcount.training.recipe import RECIPES, Recipe
from headcount.training.rows import Rows, read_pairs, read_texts
from headcount.training.split import hold_out
from headcount.training.telling import Moment
from headcount.training.train import Trained, train

__all__ = [
    "RECIPES", "Job", "Moment", "Recipe", "Rows", "Trained", "causal_model", "hold_out",
    "learn_pieces", "masked_model", "read_pairs", "read_texts", "train", "translation_model",
]  # fmt: skip
