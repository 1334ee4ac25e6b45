"""Choices by word: any unknown word is refused, wherever code branches on it.

Runs in a separate process, like a user's: the tests' own type checks would come first.
"""

from headcount.importance import METHODS
from tests.forked import Forked

SCRIPT = """
from dataclasses import replace
from headcount import speed
from headcount.analysis import Options as Analysing
from headcount.core import InputError
from headcount.explanation import ExplainOptions
from headcount.gates import BudgetConstraint, HardConcrete, Layout, Quota
from headcount.importance import Options, gradient
from headcount.importance.ablations import replacement
from headcount.models import load
from headcount.probes import ProbeOptions
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
Expected --kernel (one of auto, blocks, sweep, triton), got 'fast'.
Expected a metric (one of accuracy, f1, matthews), got 'acc'.
Expected a metric (one of bleu, chrf), got 'BLEU'. Did you mean bleu?
Expected a pooling (one of mean, cls), got 'CLS'. Did you mean cls?
Expected a replacement (one of mask, bert), got 'MASK'. Did you mean mask?
Expected an optimizer (one of adamw, muon), got 'AdamW'. Did you mean adamw?
Expected a trained part (one of all, encoder, gates), got 'decoder'. Did you mean encoder?
Expected a schedule (one of linear, inverse_sqrt, constant_with_warmup), got 'cosine'.
Expected a precision (one of float32, bfloat16), got 'fp16'.
Expected an evaluation (one of rounded, mean), got 'median'. Did you mean mean?
Expected a level (one of token, sample, batch), got 'word'.
Expected a replacement (one of zero, mean, uniform), got 'noise'.
Expected a quantity (one of loss, score), got 'bleu'.
Expected a quantity (one of loss, score), got 'bleu'.
Expected a method (one of {", ".join(METHODS)}), got 'taylor'.
Expected modes out of forward, generate, got train.
Expected a probe out of attention, words, edges, structure, layers, got 'attnetion'. \
Did you mean attention?
Expected a kind of needle (one of pass key, city, gift, meeting), got 'cities'. Did you mean city?
Expected a replacement (one of zero, mean), got 'median'. Did you mean mean?
Expected an effect (one of attribution, gradient, zero, mean, corrupt, restored, estimate, \
knockout), got 'ablation'. Did you mean attribution?
Expected a device that torch has here and that has float64, such as cpu, or cuda with a GPU, \
got 'gpu' (\
"""


def test_other_words_are_refused() -> None:
    process = Forked("-c", SCRIPT)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert output.startswith(TOLD)
