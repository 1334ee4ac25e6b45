"""Chats with pictures as data of a task: what a model of pictures reads of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from headcount.core import ModelError, short_hash
from headcount.corpora import (
    Chat,
    PictureEncoder,
    Sentence,
    Table,
    chat_of,
    sentence_beside,
    with_pictures,
)
from headcount.models import Loaded, picture_encoder, reads_pictures
from headcount.tap import input_device
from headcount.tasks.supported import same_before_the_last


@final
@dataclass(frozen=True)
class Pictured:
    """Chats of which some have pictures, and what encodes them."""

    encoder: PictureEncoder
    sentences: list[Sentence]

    @classmethod
    def of(cls, loaded: Loaded, table: Table) -> "Pictured | None":
        """The chats of a table; None if none has pictures, or the model reads none.

        Raises:
            CorpusError: for a picture that can't be used.
            ModelError: if a token of the model sees later ones, or it has no processor.
        """
        if not table.chats or not reads_pictures(loaded.model):
            return None
        sentences = [sentence_beside(each) for each in table.sentences("text")]
        if not any(each.pictures for each in sentences):
            return None
        found = cls(picture_encoder(loaded), sentences)
        first = next(each for each in sentences if each.pictures)
        found.check_is_causal(loaded, first)
        return found

    @classmethod
    def choices(cls, loaded: Loaded, table: Table) -> "Pictured | None":
        """Prompts, each with every choice as its reply; None if there are no chats and pictures.

        Raises:
            CorpusError: for a picture that can't be used.
            ModelError: if the model reads no pictures or has no processor, or a token of it sees
                later ones.
        """
        given = table.lists.get("image", [()] * len(table))
        pictures = [[each for each in its if each] for its in given]
        if not table.chats and not any(pictures):
            return None
        rows = zip(
            table["prompt"],
            table.lists["choices"],
            pictures,
            table.origins,
            range(len(table)),
            strict=True,
        )
        sentences = [
            with_pictures(_replied(prompt, choice, number in table.chats), its, origin)
            for prompt, choices, its, origin, number in rows
            for choice in choices
        ]
        found = cls(picture_encoder(loaded), sentences)
        found.check_is_causal(loaded, sentences[0])
        return found

    @property
    def signed(self) -> str:
        """A hash of the pictures."""
        return short_hash(" ".join(each.digest for one in self.sentences for each in one.pictures))

    def inputs(self, sentences: Sequence[Sentence], inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """The inputs of some chats with their pictures, from their tokens and mask."""
        ids_RN, mask_RN = inputs["input_ids"], inputs["attention_mask"]
        return self.encoder.arguments(sentences, ids_RN, mask_RN.bool())

    def check_is_causal(self, loaded: Loaded, sentence: Sentence) -> None:
        """Check that a prompt's last token changes nothing before it.

        Raises:
            ModelError: if it does, as where a prompt sees all of itself (PaliGemma).
        """
        model: Any = loaded.model
        [pair] = self.encoder.encode([sentence])
        ids_2N = torch.tensor([pair.source.ids] * 2)
        ids_2N[1, -1] = pair.source.ids[0]
        inputs = self.encoder.arguments([sentence] * 2, ids_2N, torch.ones_like(ids_2N).bool())
        device = input_device(model)
        moved = {name: each.to(device) for name, each in inputs.items()}
        if not same_before_the_last(model, moved):
            raise ModelError(
                f"Expected a model whose tokens see no later ones, since each is predicted from "
                f"those before it, got {loaded.name}, whose prompts see all of themselves. "
                "`analyze` works."
            )


def _replied(prompt: str, choice: str, is_chat: bool) -> Chat:
    """A prompt with a choice as the model's reply."""
    user: list[Any] = [{"role": "user", "content": prompt}]
    chat = chat_of(prompt) if is_chat else Chat(user)
    return Chat([*chat.turns, {"role": "assistant", "content": choice}], chat.template)
