"""Corpora: read files and make batches."""

from headcount.corpora.batches import TOKEN_TYPES, Batch, batches
from headcount.corpora.census import Census, take_census
from headcount.corpora.corpus import Corpus
from headcount.corpora.encoded import Encoded
from headcount.corpora.encoder import EncodedPair, Encoder
from headcount.corpora.frequencies import Frequencies
from headcount.corpora.sentence import Sentence, Tree
from headcount.corpora.tokens import Arcs, Tokens

__all__ = [
    "TOKEN_TYPES",
    "Arcs",
    "Batch",
    "Census",
    "Corpus",
    "Encoded",
    "EncodedPair",
    "Encoder",
    "Frequencies",
    "Sentence",
    "Tokens",
    "Tree",
    "batches",
    "take_census",
]
