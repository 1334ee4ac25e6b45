"""Tokenizers of every kind, trained once per session."""

import pytest
from transformers import PreTrainedTokenizerBase

from headcount.corpora.lines import note
from tests import tiny_tokenizers as tiny

TREEBANK = """\
# sent_id = 1
# text = The dogs didn't bark.
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tdogs\tdog\tNOUN\tNNS\t_\t5\tnsubj\t_\t_
3-4\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
3\tdid\tdo\tAUX\tVBD\t_\t5\taux\t_\t_
4\tn't\tnot\tPART\tRB\t_\t5\tadvmod:neg\t_\t_
5\tbark\tbark\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
5.1\tloudly\tloudly\tADV\tRB\t_\t_\t_\t5:advmod\t_
6\t.\t.\tPUNCT\t.\t_\t5\tpunct\t_\t_

# text = Im Dorf schläft Großvater.
1-2\tIm\t_\t_\t_\t_\t_\t_\t_\t_
1\tIn\tin\tADP\tAPPR\t_\t3\tcase\t_\t_
2\tdem\tder\tDET\tART\t_\t3\tdet\t_\t_
3\tDorf\tDorf\tNOUN\tNN\t_\t4\tobl\t_\t_
4\tschläft\tschlafen\tVERB\tVVFIN\t_\t0\troot\t_\t_
5\tGroßvater\tGroßvater\tNOUN\tNN\t_\t4\tnsubj\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t$.\t_\t4\tpunct\t_\t_

# text = Он заплатил 10 000 рублей!
1\tОн\tон\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\tзаплатил\tзаплатить\tVERB\tVBC\t_\t0\troot\t_\t_
3\t10 000\t10000\tNUM\tCD\t_\t4\tnummod:gov\t_\t_
4\tрублей\tрубль\tNOUN\tNN\t_\t2\tobj\t_\tSpaceAfter=No
5\t!\t!\tPUNCT\t.\t_\t2\tpunct\t_\t_
"""
KINDS = {
    "wordpiece": tiny.wordpiece,
    "roberta": lambda: tiny.byte_level("roberta"),
    "roberta-prefix": lambda: tiny.byte_level("roberta", add_prefix_space=True),
    "gpt2": lambda: tiny.byte_level("gpt2"),
    "t5": tiny.t5,
    "llama": tiny.llama,
    "byt5": tiny.byt5,
}
EVERY_KIND = (*KINDS, "marian", "marian-separate")


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PreTrainedTokenizerBase]:
    """One tokenizer of every kind, by name."""
    made: dict[str, PreTrainedTokenizerBase] = {name: make() for name, make in KINDS.items()}
    made["marian"] = tiny.marian(tmp_path_factory.mktemp("marian"))
    made["marian-separate"] = tiny.marian(tmp_path_factory.mktemp("separate"), separate_vocabs=True)
    return made


@pytest.fixture(params=EVERY_KIND)
def tokenizer(
    request: pytest.FixtureRequest, tokenizers: dict[str, PreTrainedTokenizerBase]
) -> PreTrainedTokenizerBase:
    """Every tokenizer in turn."""
    return tokenizers[request.param]


@pytest.fixture
def treebank() -> str:
    """Three sentences in three languages, with ranges, an empty node and a space in a word."""
    return TREEBANK


@pytest.fixture(autouse=True)
def untold() -> None:
    """Forget what earlier tests were told about their files, which nobody is told twice."""
    note.cache_clear()
