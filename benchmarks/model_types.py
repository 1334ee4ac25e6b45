"""Every model type of transformers, tiny and random: which can be measured, gated and made smaller.

Each type is built from its own configuration with small sizes. A type is *equal* if `examine`
accepts it (outputs with and without listening, gates of 0 against zeros in what the output
projections receive, on every padding and on none) and its weights are those that the model's eager
attention returns, where it returns any. *Compact, too*, if a plan without half of every layer's
heads can be cut out, and the smaller model, saved, gives the same outputs when it is loaded by
headcount and by transformers alone (`trust_remote_code=True`).

    python benchmarks/model_types.py --out model_types.md
"""

import copy
import itertools
import json
import re
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
import tyro
from model_inputs import inputs_of
from model_sizes import DEPTHS, NUM_HEADS, OF_TYPES, SIZES
from torch import Tensor
from transformers import CONFIG_MAPPING, MODEL_MAPPING, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

from headcount.artifact import save_compact
from headcount.core import InputError, LayerId, Plan
from headcount.models import Loaded, load
from headcount.tap import (
    ERRORS,
    Anatomy,
    Block,
    SampleRun,
    difference,
    sample_runs,
    tapped,
    tiny_inputs,
)

BODIES = (
    modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
    modeling_auto.MODEL_FOR_MASKED_LM_MAPPING,
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_MAPPING,
)
"""Classes to build, the first that a type has."""
LARGEST = 120_000_000
"""Number of parameters above which a shrunken model is not built."""
SECONDS = 60
"""Longest time for one type."""


@dataclass(frozen=True)
class Arguments:
    """Try every model type of transformers."""

    out: Path | None = None
    """File for the table as Markdown, whose text before the table is kept; else standard output."""
    types: tuple[str, ...] = ()
    """Model types to try; all if none is given. Other rows of the file are kept."""


_UNFIT = ("which does not: ", "which headcount can't make up", "Expected inputs that ")
"""Parts of refusals of inputs, which other sizes may mend."""


@dataclass(frozen=True)
class Outcome:
    """What became of a model type."""

    model_type: str
    model: str
    status: str
    """`compact`, `equal`, `refused`, `not built`, or `error`."""
    why: str = ""

    @property
    def is_decided(self) -> bool:
        """Whether other sizes or another class could not change the outcome."""
        is_unfit = any(words in self.why for words in _UNFIT)
        return self.status != "not built" and not (self.status == "refused" and is_unfit)


class TooSlowError(Exception):
    """A type took longer than it may."""


def main() -> None:
    """Try the types one by one, and print a table."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    outcomes = []
    for model_type in arguments.types or sorted(CONFIG_MAPPING):
        outcomes.append(tried(model_type))
        print(json.dumps(vars(outcomes[-1])), file=sys.stderr, flush=True)
    known = ""
    if arguments.out is not None and arguments.out.exists():
        known = arguments.out.read_text(encoding="utf-8")
    kept = _rows(known) if arguments.types else {}
    rows = kept | {each.model_type: each for each in outcomes if each.status != "no model"}
    table = "\n".join(_table([rows[model_type] for model_type in sorted(rows)])) + "\n"
    if arguments.out is None:
        print(table)
    else:
        before = re.split(f"^{_BEGIN}", known, maxsplit=1, flags=re.MULTILINE)[0]
        arguments.out.write_text(before + table, encoding="utf-8")


def tried(model_type: str) -> Outcome:
    """Build a type, examine it, compare its weights, and make it smaller."""
    kinds: list[Any] = []
    for mapping in BODIES:
        with suppress(KeyError, ValueError):  # some classes that mappings name are not there
            kinds.append(mapping[CONFIG_MAPPING[model_type]])
    if not kinds:
        return Outcome(model_type, "", "no model")
    kinds = list(dict.fromkeys(kind[0] if isinstance(kind, tuple) else kind for kind in kinds))
    outcomes = []
    for sizes, kind in itertools.product((SIZES, DEPTHS), kinds):
        outcomes.append(_tried(model_type, kind, sizes))
        if outcomes[-1].is_decided:
            return outcomes[-1]
    return min(outcomes, key=lambda each: each.status == "not built")


def _tried(model_type: str, kind: Any, sizes: Mapping[str, Any]) -> Outcome:
    """Try one class of a type with one set of sizes."""
    try:
        with _limited():
            model = _build(kind, CONFIG_MAPPING[model_type], sizes)
    except Exception as error:
        return Outcome(model_type, kind.__name__, "not built", _line(error))
    try:
        with _limited():
            return Outcome(model_type, kind.__name__, *_examined(model))
    except InputError as error:
        return Outcome(model_type, kind.__name__, "refused", _line(error))
    except TooSlowError as error:
        return Outcome(model_type, kind.__name__, "not built", _line(error))
    except Exception as error:
        return Outcome(
            model_type, kind.__name__, "error", f"{type(error).__name__}: {_line(error)}"
        )


def _examined(model: PreTrainedModel) -> tuple[str, str]:
    inputs = inputs_of(model)
    loaded = Loaded(model, None, type(model).__name__, inputs)
    anatomy = loaded.anatomy
    apart = _largest_difference(model, anatomy, tiny_inputs(model) if inputs is None else inputs)
    if apart is not None and apart > 1e-4:
        return "error", f"weights differ from eager attention's by {apart:.2g}"
    where = "" if inputs is None else "on inputs of its own; "
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "compact")  # of one name, so that transformers reads its code once
        try:
            save_compact(loaded, _half(anatomy), folder)
        except InputError as error:
            return "equal", f"{where}not compact: {_line(error)}"
        _check_plain(load(folder, inputs=inputs), folder)
    return "compact", where.removesuffix("; ")


def _check_plain(ours: Loaded, folder: Path) -> None:
    """Check that transformers alone loads what headcount loads from a folder."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    name = type(ours.model).__name__
    if "auto_map" in config:
        known = [auto for auto, place in config["auto_map"].items() if place.endswith(f".{name}")]
        auto = getattr(transformers, known[-1])
        plain, by = auto.from_pretrained(folder, trust_remote_code=True).eval(), known[-1]
        # transformers would make this class for every later model of the type
        auto._model_mapping._extra_content.pop(type(plain.config), None)
    else:  # a configuration of transformers says all
        plain, by = type(ours.model).from_pretrained(folder).eval(), name
    for where, run in sample_runs(ours.model, ours.inputs).items():
        with torch.no_grad(), suppress(*ERRORS if run.cached else ()):
            if (apart := difference(run.outputs(plain), run.outputs(ours.model))) > 1e-5:
                raise ValueError(f"loaded by {by} it differs by {apart:.2g} {where}")


def _half(anatomy: Anatomy) -> Plan:
    """A plan without the second half of every layer's heads, in whole key/value groups."""
    kept: dict[str, dict[int, tuple[int, ...]]] = {}
    for layer in anatomy.layers:
        groups = layer.num_key_value_heads
        size = layer.num_heads // groups
        count = max(1, groups // 2) * size if groups > 1 else layer.num_heads
        kept.setdefault(layer.site, {})[layer.layer] = tuple(range(count))
    return Plan(kept)


def _largest_difference(
    model: PreTrainedModel, anatomy: Anatomy, inputs: Mapping[str, Tensor]
) -> float | None:
    """Largest difference from the weights that eager attention returns, in rows without padding.

    None if it returns none, or if the stock model's own outputs differ between the two.
    """
    stock = copy.deepcopy(model)
    with suppress(ValueError):
        stock.set_attn_implementation("eager")
    stock.config._attn_implementation = "eager"
    run = SampleRun(inputs)
    try:
        with torch.no_grad():
            output = stock(**run.batch, output_attentions=True)
            if difference(run.outputs(stock), run.outputs(model)) > 1e-2:
                return None
    except Exception:
        return None
    of_text = output.get("attentions") or _attentions(output, "text_model_output")
    of_vision = output.get("vision_attentions") or _attentions(output, "vision_model_output")
    maps = {
        "encoder.self": output.get("encoder_attentions") or of_text,
        "decoder.self": output.get("decoder_attentions") or of_text,
        "decoder.cross": output.get("cross_attentions"),
        "vision.self": of_vision,
    }
    found: dict[LayerId, Tensor] = {}

    def listener(block: Block) -> None:
        found[block.layer.layer_id] = block.weights_BHQK  # all of a tiny layer

    with torch.no_grad(), tapped(model, listener, anatomy=anatomy):
        run.outputs(model)
    sites = {place.site for place in found}
    differences = [
        each
        for site in sites
        for each in _differences(
            [found[place] for place in found if place.site == site], maps[site]
        )
    ]
    return max(differences, default=None)


def _attentions(output: Mapping[str, Any], part: str) -> Sequence[Tensor] | None:
    """The weights that a part of a model returned."""
    return (output.get(part) or {}).get("attentions")


def _differences(ours: Sequence[Tensor], maps: Sequence[Any] | None) -> Iterator[float]:
    """Differences layer by layer; of the closest layers where a model returns maps of some only."""
    for number, theirs in enumerate(maps or ()):
        candidates = ours if len(ours) != len(maps or ()) else [ours[number]]
        same = [each for each in candidates if getattr(theirs, "shape", None) == each.shape]
        if same:
            yield min((each - theirs)[:1].abs().nan_to_num(0).max().item() for each in same)


def _build(
    kind: type[PreTrainedModel], config_class: type[PreTrainedConfig], small: Mapping[str, Any]
) -> PreTrainedModel:
    config = _shrunken(config_class, small)
    with torch.device("meta"):
        count = sum(each.numel() for each in kind._from_config(copy.deepcopy(config)).parameters())
    if count > LARGEST:
        raise ValueError(f"still {count / 1e6:.0f} million parameters with small sizes")
    torch.manual_seed(0)
    model = kind._from_config(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1 and parameter.requires_grad:  # not sinusoids
                torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    return model


def _shrunken(config_class: type[PreTrainedConfig], small: Mapping[str, Any]) -> PreTrainedConfig:
    """A configuration with small sizes, found by leaving out what its class does not accept."""
    plain = config_class()
    fields = plain.to_dict()
    sizes = {name: value for name, value in small.items() if name in fields}
    own = OF_TYPES.get(config_class.model_type, {})
    if fields.get("num_key_value_heads") == fields.get("num_attention_heads"):
        sizes.pop("num_key_value_heads", None)
        if "num_key_value_heads" in fields:
            sizes["num_key_value_heads"] = NUM_HEADS
    for name, value in list(sizes.items()):
        if value is None and isinstance(fields[name], list):
            count = sizes.get("num_hidden_layers", 2)
            kinds = list(dict.fromkeys(fields[name]))
            sizes[name] = (kinds + kinds * count)[:count]
        elif isinstance(value, list) and not isinstance(fields[name], list | tuple):
            del sizes[name]
        elif isinstance(fields[name], list | tuple) and not isinstance(value, list | None):
            is_by_layer = len(fields[name]) == fields.get("num_hidden_layers")
            sizes[name] = [value] * (2 if is_by_layer else len(fields[name]))
        elif fields[name] is None and name.endswith(("_rank", "head_dim")):
            del sizes[name]
    if "qk_rope_head_dim" in fields:
        sizes.pop("head_dim", None)
    rope = fields.get("rope_parameters") or fields.get("rope_scaling")
    if "rope_parameters" in fields and _reads(config_class, "mrope_section"):
        plain_rope = {"rope_type": "default", "rope_theta": 1e4}
        given = rope if isinstance(rope, dict) and rope else plain_rope
        if "rope_type" in given:  # otherwise it has parameters for every kind of layer
            sizes["rope_parameters"] = given | {"mrope_section": [2, 1, 1]}
    if "depths" in fields and "window_size" in fields:
        sizes["image_size"] = 64
        if isinstance(fields.get("patch_size"), int):
            sizes["patch_size"] = 4
    for name, sub in dict[str, Any](config_class.sub_configs).items():  # type: ignore[arg-type]
        given = getattr(plain, name, None)
        if given is not None:
            sizes[name] = _shrunken(type(given), small).to_dict() if sub else sizes.get(name)
    for name, value in fields.items():
        if name.endswith(("_token_id", "_token_index")) and name not in sizes:
            sizes[name] = 6 + sum(map(ord, name)) % 80 if isinstance(value, int) else value
    return config_class(**{**sizes, **own})


def _reads(config_class: type[PreTrainedConfig], name: str) -> bool:
    """Whether the modelling code beside a configuration mentions a field."""
    folder = Path(sys.modules[config_class.__module__].__file__ or "").parent
    return any(name in each.read_text(encoding="utf-8") for each in folder.glob("modeling_*.py"))


@contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlowError(f"took longer than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _line(error: Exception) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:300]


_BEGIN = "transformers "


def _rows(table: str) -> dict[str, Outcome]:
    """The rows of a table that this script wrote, by model type."""
    lines = (
        line for line in table.splitlines() if line.startswith("| ") and " | why |" not in line
    )
    found = {}
    for line in lines:
        name, kind, status, why = line.removeprefix("| ").removesuffix(" |").split(" | ", 3)
        found[name] = Outcome(name, kind, status, why.replace("\\|", "|"))
    return found


def _shortened(why: str) -> str:
    """A reason without what all reasons of its kind say."""
    for pattern, short in _SHORTER:
        why = re.sub(pattern, short, why)
    return why


_SHORTER = (
    (r"Expected a model that runs on .*, which does not: ", "does not run on made-up inputs: "),
    (r"Expected inputs that \S+ runs on, got .*?: ", "does not run on made-up inputs: "),
    (r"Expected attention that is the same on texts of .*?, which is (.*?)\. Set .*", r"\1"),
    (r" Pass (inputs that it takes to|what its processor).*", ""),
    (r"Expected attention that headcount can attribute to a site, a layer and its heads, but ", ""),
    (r" Some of its heads could not be.*", ""),
    (
        r"Expected attention through transformers' AttentionInterface, but (\S+) of .*",
        r"\1 takes a softmax of its own",
    ),
)
"""Patterns in errors, and what the table says instead."""


def _table(outcomes: list[Outcome]) -> Iterator[str]:
    counts = Counter(each.status for each in outcomes)
    yield f"{_BEGIN}{transformers.__version__}: {len(outcomes)} model types; " + ", ".join(
        f"{counts[status]} {status}"
        for status in ("compact", "equal", "refused", "error", "not built")
    )
    yield ""
    yield "| type | class | result | why |"
    yield "|---|---|---|---|"
    for each in outcomes:
        why = _shortened(each.why).replace("|", "\\|")
        yield f"| {each.model_type} | {each.model} | {each.status} | {why} |"


if __name__ == "__main__":
    main()
