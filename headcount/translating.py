"""Translating: a model's own greedy translations, the targets where a corpus has sources only."""

from collections.abc import Callable
from itertools import batched
from pathlib import Path

import torch
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.corpora import Corpus, Sentence
from headcount.errors import ModelError
from headcount.files import write_atomically
from headcount.models.selfcheck import evaluating

BATCH = 32
"""Sentences that are translated together."""
