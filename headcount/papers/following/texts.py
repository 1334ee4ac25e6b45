"""Texts and images: the corpus in a task's data, where roles are measured if no other is given."""

from headcount.corpora import Columns, Corpus, Data, Sentence
from headcount.tasks import COLUMNS, TaskName, read_examples


def texts_of(
    task: TaskName, data: Data, columns: Columns | None = None, limit: int | None = None
) -> Corpus:
    """The image or first text of every example; for translation, with the second as its target.

    Args:
        task: name of the task.
        data: the task's data.
        columns: the task's name of a column, mapped to its name or number in the data.
        limit: largest number of examples.

    Raises:
        CorpusError: if the data can't be read.
    """
    table = read_examples(task, data, columns, limit)
    if task == "translation":
        pairs = zip(table["source"], table["target"], strict=True)
        return Corpus.from_sentences(
            [
                Sentence(source, target=target, origin=origin)
                for (source, target), origin in zip(pairs, table.origins, strict=True)
            ]
        )
    if task == "image-classification":
        return Corpus(table["image"])
    return Corpus.from_sentences(table.sentences(next(iter(COLUMNS[task]))))
