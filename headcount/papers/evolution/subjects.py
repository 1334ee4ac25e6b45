"""Subjects: the models that are compared, each with its objective and the side that is read."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import final

from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from headcount.core import InputError, name_of
from headcount.corpora import Encoder
from headcount.models import Loaded, revision, tokenizer_revision
from headcount.papers.batches import mask_id_of
from headcount.papers.evolution.record import EvolutionRow, Measurement
from headcount.tap import StateId, state_ids

TRANSLATION, CAUSAL, MASKED, OTHER = "translation", "causal-lm", "masked-lm", "encoder"


@final
@dataclass(frozen=True, eq=False)
class Subject:
    """One of the models that are compared."""

    loaded: Loaded
    objective: str
    """Training objective, as far as the model's class says."""
    seed: int
    """Number of the model among those of its objective, from 1."""

    @property
    def label(self) -> str:
        """The model by objective and seed."""
        return f"{self.objective}-{self.seed}"

    @property
    def name(self) -> str:
        """Hub name of the model, or the name of its folder."""
        return name_of(self.loaded.name)

    def row(self, layer: int, measured: Measurement) -> EvolutionRow:
        """The row of a measurement of one layer of this model."""
        return EvolutionRow(*self.named, layer=layer, **asdict(measured))

    @property
    def named(self) -> tuple[str, str, int]:
        """What rows say of this model: its name, objective and seed."""
        return self.name, self.objective, self.seed

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder of texts; an encoder-decoder gets sources only."""
        return self.loaded.source_encoder()

    @cached_property
    def states(self) -> tuple[StateId, ...]:
        """The hidden states that are compared: of an encoder-decoder, the encoder's."""
        found = state_ids(self.loaded.model, self.loaded.anatomy)
        side = found[0].side
        return tuple(each for each in found if each.side == side)

    @property
    def width(self) -> int:
        """Size of a state."""
        return int(self.loaded.model.config.get_text_config().hidden_size)

    @cached_property
    def tokenizer_revision(self) -> str:
        """Hash of the tokenizer."""
        return tokenizer_revision(self.encoder.tokenizer)

    @property
    def mask_id(self) -> int:
        """Id of the mask token of a masked language model."""
        return mask_id_of(self.loaded)


def subjects_of(models: Sequence[Loaded]) -> list[Subject]:
    """The models with their objectives, numbered within each.

    Raises:
        InputError: if there is none, or one is given twice, under one name or two.
    """
    if not models:
        raise InputError("Expected a model, got none. Name at least one.")
    names = [each.name for each in models]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"Expected different models, got {twice[0]} twice. Name it once.")
    named: dict[str, str] = {}
    for each in models:
        if (other := named.setdefault(revision(each.model), each.name)) != each.name:
            raise InputError(
                f"Expected different models, got {other} and {each.name} with the same weights, "
                "which would count as two seeds. Name one of them."
            )
    seen: dict[str, int] = {}
    found = []
    for loaded in models:
        objective = objective_of(loaded)
        seen[objective] = seen.get(objective, 0) + 1
        found.append(Subject(loaded, objective, seen[objective]))
    return found


def objective_of(loaded: Loaded) -> str:
    """The training objective that a model's class says."""
    model = loaded.model
    if model.config.is_encoder_decoder:
        return TRANSLATION
    if {layer.site for layer in loaded.anatomy.layers} == {"decoder.self"}:
        return CAUSAL
    name = type(model).__name__
    is_masked = name in MODEL_FOR_MASKED_LM_MAPPING_NAMES.values() or name.endswith("ForMaskedLM")
    return MASKED if is_masked else OTHER
