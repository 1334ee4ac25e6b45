r"""Picture retrieval: which heads look from a question to the part of a picture that it is about.

$$S_h(x) = \frac{1}{|q|} \sum_{t \in q} \sum_{p \in G} A_h(t, p), \qquad
\mathrm{score}_h(x) = S_h(x) - S_h(x_\emptyset)$$

q are the tokens that the user says, G the tokens of pictures in the boxes of the phrases among
them. In $x_\emptyset$ the user says "N/A" beside the same pictures, so that what a head looks at
whatever is asked does not count. The score is the mean over prompts, in [-1, 1].

The null takes the boxes of the next prompt whose pictures have as many tokens in place of a
prompt's own: a head that finds what is asked about gets nothing there.

Reference: Can Retrieval Heads See Images? (Li et al., 2026), sections 3.2 and 3.3,
    https://arxiv.org/abs/2605.27243
Departure: the evidence is a part of a picture, not one of many pictures in a long context.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float

from headcount.core import Steps, silent_steps, spread
from headcount.skills.pictured_prompts import PicturedPrompt, PicturedPrompts


@final
@dataclass(frozen=True, eq=False)
class Retrieved:
    """What each head looks at from questions about a part of a picture."""

    score_NH: Float[np.ndarray, "prompt head"]
    """More weight on what is asked about than without the question."""
    elsewhere_NH: Float[np.ndarray, "prompt head"]
    """The same with what another prompt asks about."""
    is_asked_N: Bool[np.ndarray, " all"]
    """Which prompts of all ask about a part of a picture."""


def retrieve_places(prompts: PicturedPrompts, steps: Steps = silent_steps) -> Retrieved:
    """The scores of all heads on the prompts that ask about a part of a picture.

    Args:
        prompts: prompts with pictures.
        steps: called with the number of prompts so far, and of all.
    """
    asked = [each for each in prompts.all if each.evidence and each.asking]
    others = [_other(asked, number) for number in range(len(asked))]

    def of(prompt: PicturedPrompt) -> Float[np.ndarray, "head patch"]:
        null = prompts.null(prompt)
        return prompts.looks(prompt, prompt.asking) - prompts.looks(null, null.asking)

    scores = list[np.ndarray]()
    more = spread(of, asked, "questions about pictures")
    for prompt, other, more_HP in zip(asked, others, more, strict=True):
        both = [more_HP[:, [*its]].sum(-1, dtype=float) for its in (prompt.evidence, other)]
        scores.append(np.stack(both))
        steps(len(scores), len(asked))
    found_N2H = np.array(scores) if scores else np.zeros((0, 2, 0))
    is_asked_N = np.array([bool(each.evidence and each.asking) for each in prompts.all])
    return Retrieved(found_N2H[:, 0], found_N2H[:, 1], is_asked_N)


def _other(asked: list[PicturedPrompt], number: int) -> tuple[int, ...]:
    """The evidence of the next prompt whose pictures have as many tokens; its own if none has."""
    own = asked[number]
    following = [*asked[number + 1 :], *asked[:number]]
    same = (each for each in following if len(each.patches) == len(own.patches))
    return next((each.evidence for each in same), own.evidence)
