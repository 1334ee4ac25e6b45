"""What each attention head of a Transformer does, what it is worth, and which can be removed.

>>> import headcount
>>> loaded = headcount.load("sentence-transformers/all-MiniLM-L6-v2")  # doctest: +SKIP
>>> analysis = headcount.analyze(loaded, headcount.Corpus("treebank.conllu"))  # doctest: +SKIP
>>> analysis.roles["enc.2.8"]  # doctest: +SKIP
"""

from headcount import importance, tasks
from headcount.analysis import Analysis, Options, analyze, measure
from headcount.artifact.save import save
from headcount.compaction import compact
from headcount.corpora import Corpus, Sentence, Tree
from headcount.doctor import diagnose
from headcount.errors import CorpusError, InputError, ModelError
from headcount.heads import Head, Heads, HeadTable
from headcount.models import Loaded, examine, gated, load, tapped
from headcount.pruning.plan import Plan
from headcount.pruning.prune import prune
from headcount.reports import write_figures, write_report
from headcount.results import write_results
from headcount.roles import Role, Thresholds, find_roles

__all__ = [
    "Analysis",
    "Corpus",
    "CorpusError",
    "Head",
    "HeadTable",
    "Heads",
    "InputError",
    "Loaded",
    "ModelError",
    "Options",
    "Plan",
    "Role",
    "Sentence",
    "Thresholds",
    "Tree",
    "analyze",
    "compact",
    "diagnose",
    "examine",
    "find_roles",
    "gated",
    "importance",
    "load",
    "measure",
    "prune",
    "save",
    "tapped",
    "tasks",
    "write_figures",
    "write_report",
    "write_results",
]
