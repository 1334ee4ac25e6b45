"""Choices by word: any unknown word is refused, wherever code branches on it."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from headcount.importance import SCORES
from tests.forked import Forked

PACKAGE = Path(__file__).parents[1] / "headcount"

SCRIPT = """
from dataclasses import replace
from headcount import speed
from headcount.analysis import Options as Analysing
from headcount.core import InputError
from headcount.explanation import ExplainOptions
from headcount.gates import BudgetConstraint, HardConcrete, Layout, Quota
from headcount.importance import Options, gradient
from headcount.importance.ablations import cross_fit, replacement
from headcount.importance.score_agreement import score_deltas
from headcount.models import load
from headcount.probing import ProbeOptions
from headcount.pruning.methods.ablation import Greedy
from headcount.skills import SkillOptions
from headcount.tasks import Classification, Masking, Similarity, Translation
from headcount.training import FinetuneConfig
from tests.tasks import loaded as small

loaded, task = small.TASKS["classes-bert"]()
layout = Layout.each(loaded.heads)
budget = BudgetConstraint(layout, [Quota(None, 4)])
for make in (
    lambda: Analysing(kernel="fast"),
    lambda: Classification(loaded, small.CLASSES, metric="acc"),
    lambda: Translation(small.loaded("MarianMTModel"), small.TRANSLATIONS, metric="BLEU"),
    lambda: Similarity(small.loaded("BertModel"), small.PAIRS, pooling="CLS"),
    lambda: Masking(replacement="MASK"),
    lambda: FinetuneConfig(optimizer="AdamW"),
    lambda: FinetuneConfig(trained="decoder"),
    lambda: FinetuneConfig(schedule="cosine"),
    lambda: FinetuneConfig(precision="fp16"),
    lambda: HardConcrete(layout, budget, evaluation="median"),
    lambda: gradient(loaded.model, task, level="word"),
    lambda: replacement("noise", loaded.model, task, loaded.anatomy),
    lambda: cross_fit(task, [], quantity="bleu"),
    lambda: score_deltas(task, [], None, test="t"),
    lambda: Greedy(quantity="bleu"),
    lambda: Options(quantity="bleu"),
    lambda: Options(("taylor",)),
    lambda: speed.Options(modes=("train",)).check_sizes(),
    lambda: ProbeOptions(("attnetion",)),
    lambda: SkillOptions(kinds=("cities",)),
    lambda: SkillOptions(replace=("median",)),
    lambda: ExplainOptions(effects=("ablation",)),
    lambda: load("headcount:en-de", device="gpu"),
):
    try:
        make()
        print("nothing was said")
    except InputError as error:
        print(error)
"""

TOLD = f"""\
Expected kernel (one of auto, blocks, sweep, triton), got 'fast'.
Expected a metric (one of accuracy, f1, matthews), got 'acc'.
Expected a metric (one of bleu, chrf), got 'BLEU'. Did you mean bleu?
Expected a pooling (one of mean, cls), got 'CLS'. Did you mean cls?
Expected replacement (one of mask, bert), got 'MASK'. Did you mean mask?
Expected optimizer (one of adamw, muon), got 'AdamW'. Did you mean adamw?
Expected trained (one of all, encoder, gates), got 'decoder'. Did you mean encoder?
Expected schedule (one of linear, inverse_sqrt, constant_with_warmup), got 'cosine'.
Expected precision (one of float32, bfloat16), got 'fp16'.
Expected an evaluation (one of rounded, mean), got 'median'. Did you mean mean?
Expected a level (one of token, sample, batch), got 'word'.
Expected a replacement (one of zero, mean, uniform), got 'noise'.
Expected a quantity (one of loss, score), got 'bleu'.
Expected a test (one of randomization, sacrebleu), got 't'.
Expected quantity (one of loss, score), got 'bleu'.
Expected quantity (one of loss, score), got 'bleu'.
Expected a score (one of {", ".join(SCORES)}), got 'taylor'.
Expected modes (one of forward, generate), got 'train'.
Expected probes (one of attention, words, edges, structure, layers), got 'attnetion'. \
Did you mean attention?
Expected kinds (one of pass key, city, gift, meeting), got 'cities'. Did you mean city?
Expected replace (one of zero, mean), got 'median'. Did you mean mean?
Expected an effect (one of attribution, gradient, zero, mean, corrupt, restored, estimate, \
integrated-5, integrated-10, relp, knockout), got 'ablation'. Did you mean attribution?
Expected a device that torch has here and that has float64, such as cpu, or cuda with a GPU, \
got 'gpu' (\
"""


@pytest.mark.slow
def test_other_words_are_refused() -> None:
    """In a separate process, like a user's: the tests' own type checks would come first."""
    process = Forked("-c", SCRIPT)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert output.startswith(TOLD)


OPEN = {
    "analysis/examples.py _show": "other roles are shown by where the head looks most",
    "analysis/roles.py _lacks": "a trait without needs lacks nothing",
    "measures/streaming.py sides": "the third site is cross-attention; core knows no other",
    "measures/word_maps.py _of_site": "the third site is cross-attention; core knows no other",
    "corpora/corpus.py _add_file": "all other files are read as they are",
    "corpora/mentions.py kind_by_tag": "tags are of treebanks; all others are nominal",
    "importance/ablation_effects.py _groups": "asks of two kinds of ablation what they find",
    "papers/following/following.py texts_of": "`read_examples` has read the task by its name",
    "coreference/antecedents.py _traits": "rules add to each other",
    "clusters/grouping.py compare": "the third site is cross-attention; core knows no other",
    "explanation/page.py _explained_data": "other predictions are made at no single place",
    "serve/live_model.py _answer": "two kinds have a second text, whatever others there are",
    "tap/kernels.py unsuited": "the kernel of blocks suits all",
    "tasks/classification.py score": "the constructor checks the metric",
    "training/finetuning.py _freeze": "the settings check what is trained",
}
"""Functions in which words that code does not name are no fault, each with the reason."""


@pytest.mark.slow
def test_a_choice_ends_in_an_error() -> None:
    """No word that is not named gets what another one means, as the last `else` would give it."""
    found = {each for path in PACKAGE.rglob("*.py") for each in _without_error(path)}
    assert found == {*OPEN}


def _without_error(path: Path) -> Iterator[str]:
    """Functions that choose between two texts or more, and neither raise nor check."""
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(function, ast.FunctionDef):
            continue
        code, chosen = ast.unparse(function), defaultdict[str, set[str]](set)
        for node in ast.walk(function):
            if isinstance(node, ast.If | ast.IfExp):
                for subject, text in _compared(node.test):
                    chosen[subject].add(text)
            if isinstance(node, ast.Match) and not any(_is_rest(each) for each in node.cases):
                chosen[ast.unparse(node.subject)] |= set(map(ast.unparse, node.cases))
        ends = any(word in code for word in ("assert_never", "raise ", "check_choice"))
        if not ends and any(len(texts) > 1 for texts in chosen.values()):
            yield f"{path.relative_to(PACKAGE).as_posix()} {function.name}"


def _compared(condition: ast.expr) -> Iterator[tuple[str, str]]:
    """What a condition compares with texts."""
    for node in ast.walk(condition):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
            other = node.comparators[0]
            if isinstance(other, ast.Constant) and isinstance(other.value, str):
                yield ast.unparse(node.left), other.value


def _is_rest(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
