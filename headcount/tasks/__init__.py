"""Tasks: what quality means. One file per task; each is data, a loss and a score."""

from headcount.tasks.build import TASKS, build
from headcount.tasks.causal import CausalLanguageModelling
from headcount.tasks.classification import Classification
from headcount.tasks.drawn import drawn
from headcount.tasks.evaluate import evaluate
from headcount.tasks.fit import fitting
from headcount.tasks.masked import MaskedLanguageModelling
from headcount.tasks.reading import read_data, read_table
from headcount.tasks.similarity import Similarity
from headcount.tasks.table import Column, Columns, Data, Table
from headcount.tasks.task import Answers, Evaluation, Losses, Task, TaskBatch
from headcount.tasks.translation import Translation

__all__ = [
    "TASKS", "Answers", "CausalLanguageModelling", "Classification", "Column", "Columns", "Data",
    "Evaluation", "Losses", "MaskedLanguageModelling", "Similarity", "Table", "Task", "TaskBatch",
    "Translation", "build", "drawn", "evaluate", "fitting", "read_data", "read_table",
]  # fmt: skip
