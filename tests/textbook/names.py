"""GAP's scorer in the paper's words, one name at a time."""

from collections.abc import Sequence


def f1(yes: Sequence[tuple[bool, bool]], right: Sequence[tuple[bool, bool]]) -> float:
    """F1 of the answers whether a pronoun means a name."""
    true_positives = false_positives = false_negatives = 0
    for answers, truths in zip(yes, right, strict=True):
        for answer, truth in zip(answers, truths, strict=True):
            true_positives += answer and truth
            false_positives += answer and not truth
            false_negatives += truth and not answer
    precision = true_positives / (true_positives + false_positives)
    recall = true_positives / (true_positives + false_negatives)
    return 2 * precision * recall / (precision + recall)
