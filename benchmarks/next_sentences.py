"""Multiple choice out of plain text: which of four sentences goes on with a paragraph.

python benchmarks/next_sentences.py wiki.valid.raw next.jsonl

The prompt is the first two sentences of a paragraph, the right choice is the third, and the others
are third sentences of other paragraphs.
"""

import json
import re
from pathlib import Path

import numpy as np
import tyro

CHOICES = 4


def main(
    text: tyro.conf.Positional[Path],
    out: tyro.conf.Positional[Path],
    number: int = 200,
    skip: int = 0,
    seed: int = 0,
) -> None:
    """Write a file for the task `choice`.

    Args:
        text: text with a paragraph a line.
        out: the file.
        number: number of questions.
        skip: number of first paragraphs to leave out, e.g. those that chose heads.
        seed: seed of the draws.
    """
    lines = [line.strip() for line in text.read_text(encoding="utf-8").splitlines()]
    paragraphs = [line for line in lines if len(line.split()) > 60 and not line.startswith("=")]
    split = [re.split(r"(?<= \.) (?=[A-Z])", each) for each in paragraphs[skip:]]
    asked = [each for each in split if len(each) > CHOICES][:number]
    generator = np.random.default_rng(seed)
    with out.open("w", encoding="utf-8") as file:
        for right, sentences in enumerate(asked):
            others = [each[2] for row, each in enumerate(asked) if row != right]
            wrong = generator.choice(others, CHOICES - 1, replace=False).tolist()
            answer = int(generator.integers(CHOICES))
            choices = [*wrong[:answer], sentences[2], *wrong[answer:]]
            row = {"prompt": " ".join(sentences[:2]), "choices": choices, "answer": answer}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(f"{len(asked)} questions")


if __name__ == "__main__":
    tyro.cli(main)
