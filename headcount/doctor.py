"""Doctor: checks what works for a model and what does not, before anything runs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch

from headcount.cache import able_in_words
from headcount.core import (
    OURS,
    InputError,
    Origin,
    PluginError,
    amount,
    checks_of,
    origins,
    registries,
)
from headcount.corpora import Corpus, Sentence, has_languages
from headcount.models import Loaded, check_has_heads, inputs_of, load, own_encoder
from headcount.pruning import check_prunable
from headcount.results import LAPSED, Certificate
from headcount.speed import limits
from headcount.tap import (
    LONG,
    TRITON_STATE,
    UNKEPT,
    implementation_of,
    machine_code,
    unsuited,
    without_numba,
)

WORDS = ("Unbelievably", ",", "the", "naïve", "Straßenbahn", "didn't", "arrive", "—", "Москва", "!")
"""Words of various lengths, scripts and kinds, with which the tokenizer's pieces must align."""


@final
@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    subject: str
    works: bool
    text: str
    """What was found; if it does not work, why, and the consequence."""

    @property
    def is_required(self) -> bool:
        """Whether nothing can be measured if this does not work."""
        optional = ("unseen attention", "output projections", "certificate", "compaction", "cache")
        return self.subject not in optional and not self.subject.startswith("plug-in ")


def diagnose(
    name: str | Path,
    device: str = "cpu",
    dtype: str = "float32",
    trust_remote_code: bool = False,
) -> list[Finding]:
    """Check a model: loading, attention, projections, tokenizer; stop after a fatal failure."""
    findings: list[Finding] = []
    try:
        loaded = load(name, device, dtype, trust_remote_code=trust_remote_code, check=True)
    except InputError as error:
        return [Finding("loading", False, str(error))]
    config, model = loaded.model.config, loaded.model
    size = sum(parameter.numel() for parameter in model.parameters())
    kind = f"{type(model).__name__} ({config.model_type})"
    what = f"{kind}, {size / 1e6:,.1f} M parameters, {model.dtype}"
    findings.append(Finding("loading", True, what))
    if (folder := Path(name)).joinpath(Certificate.FILE).exists():
        findings.append(_certificate(folder))
    checks = [_attention, _kernel, _unseen, _projections, _compaction, _cache, _tokenizer, _words]
    if not inputs_of(loaded.model).is_text:
        checks[-2:] = [_inputs]
    for check in checks:
        for finding in _caught(check, loaded):
            findings.append(finding)
        if check in (_attention, _tokenizer) and not findings[-1].works:
            break
    return findings


def plugins() -> list[Finding]:
    """Import the plug-ins that are listed, and say what each adds."""
    added: dict[Origin, list[str]] = {origin: [] for origin in origins()}
    broken: dict[Origin, str] = {}
    for registry in registries():
        for name in registry:
            if (origin := registry.origin(name)) == OURS:
                continue
            added.setdefault(origin, []).append(f"{name} ({registry.family})")
            try:
                registry[name]
            except PluginError as error:
                broken[origin] = str(error)
    return [
        Finding(
            f"plug-in {origin}",
            origin not in broken,
            broken.get(origin, f"adds {', '.join(names) or 'nothing'}; {checks_of(str(origin))}"),
        )
        for origin, names in added.items()
    ]


def _certificate(folder: Path) -> Finding:
    """Whether the weights of a compact model are those that were compared."""
    try:
        made = Certificate.read(folder)
    except InputError as error:
        return Finding("certificate", False, str(error))
    if made.holds_for(folder):
        return Finding(
            "certificate", True, f"{amount(len(made.comparisons), 'comparison')} of these weights"
        )
    return Finding("certificate", False, LAPSED)


def _caught(check: Callable[[Loaded], Iterator[Finding]], loaded: Loaded) -> Iterator[Finding]:
    try:
        yield from check(loaded)
    except InputError as error:
        subject = check.__name__.strip("_")
        subject = f"{inputs_of(loaded.model).unit}s" if check is _inputs else subject
        yield Finding(subject, False, str(error))


def _attention(loaded: Loaded) -> Iterator[Finding]:
    check_has_heads(loaded)
    anatomy = loaded.anatomy
    yield Finding("heads", True, f"{len(anatomy.heads)}: {anatomy.heads}")
    grouped = {
        (layer.num_heads, layer.num_key_value_heads)
        for layer in anatomy.layers
        if layer.num_heads != layer.num_key_value_heads
    }
    for num_heads, num_key_value_heads in sorted(grouped):
        shared = f"{num_heads} query heads share {amount(num_key_value_heads, 'key/value head')}"
        text = f"{shared}; a head is a query head"
        yield Finding("grouped queries", True, text)
    how = "by its own eager function" if anatomy.eager else "by headcount's own arithmetic"
    own = [layer for layer in anatomy.layers if layer.by_own_softmax]
    how = "by the model's own softmax" if len(own) == len(anatomy.layers) else how
    stock, found = implementation_of(loaded.model), dict(anatomy.differences)
    outputs = found.pop("outputs")
    at_calls = f"every head equals a plain softmax to {max(found.values()):.1e}, " if found else ""
    yield Finding(
        "self-check",
        True,
        f"{at_calls}tapped outputs equal the stock model's ({stock}) to {outputs:.1e}, padded or "
        f"not, weights computed {how}; gates of 0 change the output at every site",
    )
    if anatomy.by_outputs:
        text = (
            "attention can't be compared call by call with a plain softmax in "
            f"{', '.join(anatomy.by_outputs)}: there, the model's outputs alone were compared"
        )
        yield Finding("compared by outputs", True, text)


def _kernel(loaded: Loaded) -> Iterator[Finding]:
    why = unsuited("sweep", loaded.model, loaded.anatomy)
    blocks = "attention is measured in blocks"
    if why is not None:
        text = f"{blocks}: {why}"
    elif (code := machine_code()).why is not None:
        text = f"{blocks}: {without_numba(code.why)}"
    else:
        text = f"{blocks}, and by one compiled sweep where texts have {LONG} tokens or more"
        text = text if code.is_kept else f"{text} ({UNKEPT})"
    yield Finding("kernel", True, f"{text}; --kernel triton, for GPUs: {TRITON_STATE}")


def _unseen(loaded: Loaded) -> Iterator[Finding]:
    if loaded.anatomy.unseen:
        text = f"the attention of {', '.join(loaded.anatomy.unseen)} can't be measured or gated"
        yield Finding("unseen attention", False, text)
    if loaded.anatomy.not_run:
        text = (
            f"heads in {', '.join(loaded.anatomy.not_run)} are left out, since only text was passed"
        )
        yield Finding("vision", False, text)


def _projections(loaded: Loaded) -> Iterator[Finding]:
    layers = loaded.anatomy.layers
    blind = [layer.module for layer in layers if layer.output is None]
    if blind:
        text = (
            f"attention output does not go straight into a linear map in {', '.join(blind)}: "
            "value_norm and norm_* will be NaN there, everything else is measured"
        )
        yield Finding("output projections", False, text)
    else:
        yield Finding(
            "output projections", True, f"found for {amount(len(layers), 'attention layer')}"
        )


def _compaction(loaded: Loaded) -> Iterator[Finding]:
    try:
        check_prunable(loaded)
    except torch.OutOfMemoryError:
        text = "not tried: not enough memory for a smaller model beside this one"
        yield Finding("compaction", False, text)
    else:
        yield Finding("compaction", True, "heads can be cut out: prune, compact")
        yield Finding("pruning", True, limits(loaded).sentence())


def _cache(loaded: Loaded) -> Iterator[Finding]:
    if loaded.model.can_generate() and [*loaded.heads.counts] == ["decoder.self"]:
        yield Finding("cache", True, able_in_words(loaded))


def _tokenizer(loaded: Loaded) -> Iterator[Finding]:
    encoder = loaded.encoder()
    yield Finding("tokenizer", True, encoder.about)
    if encoder.start_id is not None:
        text = "encoder-decoder: give parallel text (.tsv, or --source and --target)"
        if loaded.model.can_generate():
            text += "; with sources only, the model's own greedy translation is the target"
        yield Finding("corpus", True, text)
        if not has_languages(encoder.tokenizer):
            text = (
                "none are set: give --languages SOURCE TARGET to the commands that measure it, "
                "with the codes on the model's card"
            )
            yield Finding("languages", True, text)


def _inputs(loaded: Loaded) -> Iterator[Finding]:
    """What a model of other inputs than texts makes of them."""
    encoder = own_encoder(loaded)
    yield Finding(f"{encoder.inputs.unit}s", True, f"{encoder.about}; give {encoder.inputs.more}")


def _words(loaded: Loaded) -> Iterator[Finding]:
    encoder = loaded.encoder()
    sentence = Sentence(text=" ".join(WORDS), words=WORDS, origin="trial words")
    (encoded,) = encoder.sources(list(Corpus.from_sentences([sentence])))
    text = f"pieces of all {len(WORDS)} trial words were aligned"
    if lost := encoded.num_words_lost:
        text = f"{lost} of {len(WORDS)} trial words have no piece in the vocabulary, the rest do"
    if unknown := sum(each == encoder.tokenizer.unk_token_id for each in encoded.ids):
        pieces = amount(len(encoded.ids), "piece")
        text += f"; {unknown} of {pieces} are {encoder.tokenizer.unk_token}"
    yield Finding("treebank words", True, text)
