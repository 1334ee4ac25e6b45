"""Word alignment: how well the largest weights of every head link words to their translations.

Every target word is linked to the source word at its largest weight or norm, and these links are
compared with gold links (see `link_scores`).

Links of other aligners, such as statistical ones, scored beside those of the heads.

Reference: Attention is Not Only a Weight (Kobayashi et al., 2020), section 5,
https://arxiv.org/abs/2004.10102
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.alignment.link_scores import (
    Found,
    GoldCounts,
    LinkFinder,
    LinksOf,
    Place,
    gold_grid,
    pair_batch,
    score,
    share_pieces,
)
from headcount.alignment.result import Alignment, AlignmentOptions, AlignmentRecord
from headcount.core import (
    SITES,
    CorpusError,
    Head,
    InputError,
    Progress,
    Stopwatch,
    amount,
    name_of,
    short_hash,
    silent,
    spread,
)
from headcount.corpora import (
    Corpus,
    Encoder,
    Links,
    Misread,
    Named,
    PairTokens,
    WordPair,
    encode_one_sequence,
    encode_two_sides,
    groups_by_length,
    padded,
    pairs_of_words,
    read_links,
)
from headcount.models import CUT, Loaded, as_loaded, check_has_heads, check_memory, signature
from headcount.statistics import few_clusters
from headcount.tap import AttentionLayer, Tap, evaluating, input_device, without_cache


def check_names(files: Sequence[str]) -> None:
    """Check that the files of other aligners have names of their own, which their rows take.

    Raises:
        InputError: if two files have one name.
    """
    names = [Path(file).stem for file in files]
    if twice := sorted(name for name in set(names) if names.count(name) > 1):
        raise InputError(
            f"Expected files of links with different names, got {twice[0]} twice. Rename one."
        )


def _counts(
    links: Links, gold: Links, is_source: Sequence[bool], is_target: Sequence[bool]
) -> tuple[int, int, int]:
    """Numbers of links, of sure ones and of possible ones, between words that take part."""
    drawn = {
        (source, target)
        for source, target in links.possible
        if is_source[source] and is_target[target]
    }
    return len(drawn), len(drawn & gold.sure), len(drawn & gold.possible)


CROSS = "decoder.cross"


def align(
    model: Loaded | PreTrainedModel,
    pairs: Corpus,
    gold: str | Path | Sequence[Links],
    options: AlignmentOptions | None = None,
    progress: Progress = silent,
    tokenizer: Tokenizer | None = None,
) -> Alignment:
    """Link the words of pairs by every head, and compare with gold links.

    A model with cross-attention reads the source in its encoder and the target in its decoder. Any
    other model reads both in one sequence, and its self-attention links them.

    Args:
        model: the result of `load`, or a plain model together with its tokenizer.
        pairs: parallel text.
        gold: the file with gold links, or the links of every pair.
        options: how to run.
        progress: called with the stage and the number of pairs done.
        tokenizer: the tokenizer of a plain model.

    Raises:
        CorpusError: if pairs or links can't be read, or a link is out of range.
        ModelError: if the model's attention can't be observed.
        InputError: if an option does not fit the model.
    """
    loaded, options = as_loaded(model, tokenizer), options or AlignmentOptions()
    check_has_heads(loaded)
    check_names(options.compare)
    watch = Stopwatch()
    work = _Work.of(loaded, pairs, gold, options)
    found = dict(work.other_links(options.compare)) | _find(loaded, work, options, progress)
    counts = GoldCounts.of(work.gold, work.is_target)
    rows = tuple(score(found, counts, options.samples, options.seed))
    file = name_of(gold) if isinstance(gold, str | Path) else "<python>"
    record = AlignmentRecord(
        signature=_signature(loaded, pairs, work, options),
        model=name_of(loaded.name),
        corpora=pairs.names,
        gold=file,
        pairs=len(work.pairs),
        too_long=work.too_long,
        sure=int(counts.sure_P.sum()),
        possible=sum(len(links.possible) for links in work.gold),
        cases=int(counts.cases_P.sum()),
        warnings=tuple(_warnings(work)),
        timings=watch.lap("align"),
    )
    return Alignment(record, rows)


def _signature(loaded: Loaded, pairs: Corpus, work: "_Work", options: AlignmentOptions) -> str:
    """Everything that the numbers depend on."""
    return signature(
        loaded,
        pairs.sha256(),
        n=len(work.pairs),
        **pairs.signed,
        gold=_sha256(work.gold),
        join=options.join,
        punctuation="split" if options.split_punctuation else None,
        elements=options.elements,
        end="dropped" if options.end_of_source else None,
        compare=_files_sha256(options.compare),
        samples=options.samples,
        seed=options.seed,
    )


def _warnings(work: "_Work") -> Iterator[str]:
    if work.too_long:
        yield (
            f"pairs longer than the model's limit of {work.limit} tokens, left out: "
            f"{work.too_long:,} of {work.too_long + len(work.pairs):,}"
        )
    yield from few_clusters(len(work.pairs), "pair")
    differing = Named().add(pair.origin for pair in work.all_pairs if pair.differs)
    yield from Misread(differing).warnings()


def _sha256(gold: Sequence[Links]) -> str:
    links = [(sorted(each.sure), sorted(each.possible)) for each in gold]
    return short_hash(repr(links))


def _files_sha256(files: Sequence[str]) -> str | None:
    """A hash over the contents of some files; None without any."""
    contents = b"\0".join(Path(file).read_bytes() for file in files)
    return short_hash(contents) if files else None


@final
@dataclass(frozen=True)
class _Work:
    """The pairs that fit the model, their gold links, and the words that take part."""

    all_pairs: tuple[WordPair, ...]
    kept: tuple[int, ...]
    """Numbers of the pairs that fit the model."""
    pairs: tuple[WordPair, ...]
    tokens: tuple[PairTokens, ...]
    gold: tuple[Links, ...]
    is_source: tuple[list[bool], ...]
    is_target: tuple[list[bool], ...]
    too_long: int
    limit: int | None
    pad_id: int

    @classmethod
    def of(
        cls,
        loaded: Loaded,
        corpus: Corpus,
        gold: str | Path | Sequence[Links],
        options: AlignmentOptions,
    ) -> "_Work":
        pairs = pairs_of_words(corpus, options.split_punctuation)
        links = read_links(gold, len(pairs)) if isinstance(gold, str | Path) else list(gold)
        if len(pairs) != len(links):
            raise CorpusError(
                f"Expected gold links for each of {amount(len(pairs), 'pair')}, got {len(links)}. "
                "Give as many."
            )
        _check_range(pairs, links)
        if not any(its.sure for its in links):
            raise CorpusError("Expected at least one sure link, got none. Give other gold links.")
        encoder, limit = loaded.encoder(), loaded.max_length
        tokens = list(_encoded(encoder, pairs, options))
        if options.end_of_source:
            tokens = [_with_end(*both, encoder) for both in zip(pairs, tokens, strict=True)]
        kept = [place for place, one in enumerate(tokens) if one.length <= (limit or one.length)]
        if not kept:
            raise CorpusError(
                f"Expected pairs of at most {limit} tokens, got none that short. Split them."
            )
        begins = re.compile(options.elements or "")
        some = [pairs[place] for place in kept]
        return cls(
            all_pairs=tuple(pairs),
            kept=tuple(kept),
            pairs=tuple(some),
            tokens=tuple(tokens[place] for place in kept),
            gold=tuple(links[place] for place in kept),
            is_source=tuple([bool(begins.match(w)) for w in each.source.words] for each in some),
            is_target=tuple([bool(begins.match(w)) for w in each.target.words] for each in some),
            too_long=len(pairs) - len(kept),
            limit=limit,
            pad_id=encoder.pad_id,
        )

    def other_links(self, files: Sequence[str]) -> Iterator[tuple[Place, Found]]:
        """The links of every other aligner, of whose files each holds those of all pairs.

        Raises:
            CorpusError: if links can't be read, or one is out of range.
        """
        for file in files:
            links = read_links(file, len(self.all_pairs))
            _check_range(self.all_pairs, links)
            its = [links[place] for place in self.kept]
            counts = map(_counts, its, self.gold, self.is_source, self.is_target)
            yield Place(Path(file).stem, "aligner", "file", "file"), Found(*np.array([*counts]).T)


def _check_range(pairs: Sequence[WordPair], links: Sequence[Links]) -> None:
    for pair, its in zip(pairs, links, strict=True):
        its.check(len(pair.source.spans), len(pair.target.spans))


def _encoded(
    encoder: Encoder, pairs: Sequence[WordPair], options: AlignmentOptions
) -> Iterator[PairTokens]:
    if encoder.start_id is None:
        join = options.join and options.join.replace("\\n", "\n").replace("\\t", "\t")
        return encode_one_sequence(encoder, pairs, join)
    if options.join is not None:
        raise InputError(
            "--join is for models that read both texts in one sequence, and this one reads the "
            "target in its decoder. Leave it out."
        )
    return encode_two_sides(encoder, pairs)


def _with_end(pair: WordPair, tokens: PairTokens, encoder: Encoder) -> PairTokens:
    """The same, whose end of the source is one more source word, after the others."""
    if encoder.start_id is None or tokens.source_of[-1] >= 0:
        raise InputError(
            "--end-of-source is for models that read the source in an encoder and end it with a "
            "special token, and this one does not. Leave it out."
        )
    return replace(tokens, source_of=[*tokens.source_of[:-1], len(pair.source.words)])


def _find(
    loaded: Loaded, work: _Work, options: AlignmentOptions, progress: Progress
) -> dict[Place, Found]:
    """The links of every head and layer, by pair."""
    model, anatomy = loaded.model, loaded.anatomy
    lengths = [each.length for each in work.tokens]
    check_memory(loaded, max(lengths), len(lengths), options.max_tokens, CUT, whole=True)
    has_cross = any(layer.site == CROSS for layer in anatomy.layers)
    layers = [layer for layer in anatomy.layers if (layer.site == CROSS) == has_cross]
    finder, counting = LinkFinder(model, layers), _Counting(work, layers)
    body, done = model.base_model, 0
    more = without_cache(body)

    def of_batch(places: Sequence[int]) -> tuple[Sequence[int], LinksOf]:
        batch = pair_batch(
            [work.tokens[place] for place in places],
            [(*work.is_source[place], options.end_of_source) for place in places],
            work.pad_id,
        ).to(input_device(model))
        finder.start(batch)
        body(**batch.inputs, **more)
        return places, finder.links

    groups = groups_by_length(range(len(lengths)), lengths.__getitem__, options.max_tokens)
    with evaluating(model), torch.inference_mode():
        with Tap(model, anatomy, finder, block=2**62):  # a layer is one block
            for places, links in spread(of_batch, groups, "batches"):
                counting.add(links, places)
                done += len(places)
                progress("aligning", done, len(work.tokens))
    return counting.found


@final
class _Counting:
    """Counts the links of every head and layer that are in the gold links."""

    def __init__(self, work: _Work, layers: Sequence[AttentionLayer]) -> None:
        shape = (3, len(work.pairs))
        self.found = defaultdict[Place, Found](lambda: Found(*np.zeros(shape, np.int64)))
        self._work, self._names = work, {layer.layer_id: _names(layer) for layer in layers}

    def add(self, links: LinksOf, places: Sequence[int]) -> None:
        """Count the links of a batch of pairs."""
        work = self._work
        gold, takes = [work.gold[p] for p in places], [work.is_target[p] for p in places]
        end_B11 = np.array([len(work.is_source[p]) for p in places])[:, None, None]
        gold_2BWV = gold_grid(gold, takes, int(end_B11.max()) + 1)
        for row, place in enumerate(places):
            share_pieces(gold_2BWV[:, row], work.tokens[place].merged)
        takes_B1W = padded([list(map(int, each)) for each in takes], 0)[:, None]
        batch_B11 = np.arange(len(places))[:, None, None]
        for (layer, quantity, direction), links_BHW in links.items():
            its_BHW = links_BHW.numpy()
            word_11W = np.arange(its_BHW.shape[2])[None, None]
            hits_2BH = gold_2BWV[:, batch_B11, word_11W, its_BHW].sum(-1)
            drawn_BH = (takes_B1W[..., : its_BHW.shape[2]] * (its_BHW < end_B11)).sum(-1)
            for index, (name, level) in enumerate(self._names[layer]):
                its = self.found[Place(name, level, quantity, direction)]
                its.sure_P[places], its.possible_P[places] = hits_2BH[:, :, index]
                its.links_P[places] = drawn_BH[:, index]


def _names(layer: AttentionLayer) -> list[tuple[str, str]]:
    """Names and levels of the rows of a layer: its heads, then itself."""
    heads = [(str(Head(layer.site, layer.layer, i)), "head") for i in range(layer.num_heads)]
    return [*heads, (f"{SITES[layer.site]}.{layer.layer}", "layer")]
