"""Words with labels: the lists of a table, or a column of a treebank in CoNLL-U.

Of a treebank, the words are the syntactic ones. Their labels are `upos` (by default), `xpos`,
`deprel`, or the value of a key: `feats.Number`, `misc.NER`. A word without the key has the label
`_`, as the format writes an empty column.
Reference: https://universaldependencies.org/format.html
"""

from collections.abc import Sequence
from pathlib import Path

from headcount.core import CorpusError, InputError, amount
from headcount.corpora.conllu import check_word, is_treebank, sentence_lines
from headcount.corpora.held import sources_of
from headcount.corpora.reading import table_of
from headcount.corpora.table import Columns, ColumnSpec, Data, Table

NO_LABEL = "_"
"""Label of a word that has none, as in CoNLL-U."""
WORDS, LABELS = "words", "labels"
"""The columns of words and their labels, by the task's names."""

_COLUMNS = {"upos": 3, "xpos": 4, "deprel": 7}
_KEYED = {"feats": 5, "misc": 9}


def read_word_labels(data: Data, columns: Columns | None, roles: ColumnSpec) -> Table:
    """The table with lists of words and of their labels, one row for each sentence.

    Raises:
        CorpusError: as in `read_data`; if treebanks are mixed with tables, a line of a treebank
            has other columns, or a sentence has more or fewer labels than words.
        InputError: for an unknown column.
    """
    sources = sources_of(data)
    files = [each for each in sources if isinstance(each, Path) and is_treebank(each)]
    if files and len(files) < len(sources):
        raise CorpusError(
            f"Expected treebanks only or tables only, got {', '.join(map(str, sources))}. Give one "
            "kind."
        )
    if not files:
        table = table_of([(source, columns) for source in sources], roles)
    else:
        name = treebank_column(columns, roles)
        table = Table({}, [])
        for file in files:
            for lines in sentence_lines(file):
                for number, row in lines.rows:
                    check_word(file, number, row[1].strip())
                rows = [row for _, row in lines.rows]
                table.origins.append(f"{file}:{lines.rows[0][0]}")
                table.add(WORDS, roles[WORDS], tuple(row[1] for row in rows))
                table.add(LABELS, roles[LABELS], tuple(_label(row, name) for row in rows))
        if not table.origins:
            raise CorpusError(f"Expected at least one sentence, got none in {data}.")
    for words, labels, origin in zip(
        table.lists[WORDS], table.lists[LABELS], table.origins, strict=True
    ):
        if len(words) != len(labels):
            raise CorpusError(
                f"{origin}: expected a label for each of {amount(len(words), 'word')}, got "
                f"{len(labels)}. Fix the line."
            )
    return table


def treebank_column(columns: Columns | None, roles: ColumnSpec) -> str:
    """The column of a treebank that the user named for labels; `upos` if none.

    Raises:
        InputError: for a column that treebanks do not have.
    """
    given = dict(columns or {})
    name = str(given.pop(LABELS, "upos"))
    kind, _, key = name.partition(".")
    if given or not (name in _COLUMNS or (kind in _KEYED and key)):
        wrong = next((f"{role}={column}" for role, column in given.items()), f"{LABELS}={name}")
        raise InputError(
            f"Expected {LABELS}=upos, xpos, deprel, feats.KEY or misc.KEY as the only column of a "
            f"treebank, got {wrong}. The words are those of the treebank."
        )
    return name


def _label(row: Sequence[str], name: str) -> str:
    if name in _COLUMNS:
        return row[_COLUMNS[name]].strip() or NO_LABEL
    kind, _, key = name.partition(".")
    pairs = (pair.partition("=") for pair in row[_KEYED[kind]].split("|"))
    return next((value for found, _, value in pairs if found == key and value), NO_LABEL)
