"""Opening: a model, a finished run or a pruned model, by the name of its folder."""

from pathlib import Path

from headcount.core import InputError, Plan, name_of
from headcount.models import Loaded, check_has_heads, load
from headcount.reports import report_view
from headcount.results import Analysis, PruneRecord, read_run
from headcount.serve.live_model import Findings, LiveModel

PLAN = "plan.json"


def open_model(
    name: str,
    *,
    model: str | None = None,
    plan: str | Path | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    languages: tuple[str, str] | None = None,
    trust_remote_code: bool = False,
) -> LiveModel:
    """Open what `headcount serve` is given.

    Args:
        name: a model; the folder of `headcount analyze`, whose roles are shown; or the folder of a
            pruned model, whose dense model is opened with the plan.
        model: the dense model of a run or of a pruned model, if it is not where its record says.
        plan: a plan.json, or a folder with one.
        device: where to put the model.
        dtype: number format, as `load` takes it.
        languages: source and target language of a multilingual translator.
        trust_remote_code: whether Python files that come with the model may run.

    Raises:
        InputError: if there is no such model, or run and plan do not fit it.
    """
    folder = Path(name)
    run = read_run(folder) if (folder / "run.json").exists() else None
    is_pruned = run is None and (folder / PruneRecord.FILE).exists()
    if run is not None:
        model = model or run.record.model
    elif is_pruned:
        model, plan = model or PruneRecord.read(folder).model, plan or folder
    try:
        loaded = load(model or name, device, dtype, languages, None, trust_remote_code)
    except InputError as error:
        if run is None and not is_pruned:
            raise
        raise InputError(
            f"{name} names its model as {model}, which can't be loaded. Say where it is with "
            f"--model. {error}"
        ) from error
    check_has_heads(loaded)
    loaded.encoder()  # a model that reads no text is refused before its page opens
    pruned = None if plan is None else _pruned(loaded, Path(plan))
    return LiveModel(loaded, pruned, {} if run is None else _findings(loaded, run, name))


def _pruned(loaded: Loaded, path: Path) -> tuple[str, ...]:
    """Names of the heads that a plan prunes."""
    plan = Plan.read(path / PLAN if path.is_dir() else path)
    plan.check_heads(loaded.heads)
    return tuple(map(str, plan.pruned_heads(loaded.heads)))


def _findings(loaded: Loaded, run: Analysis, name: str) -> Findings:
    """What the heads do, from a run of this model."""
    if dict(run.record.sites) != dict(loaded.heads.counts):
        raise InputError(
            f"Expected the model of the run {name_of(name)}, which has other heads, got "
            f"{loaded.name} with {loaded.heads}. Name the run's model with --model."
        )
    return {
        card.head: (
            *((found.verdict, found.text) for found in card.findings),
            *[("skill", card.does)] * bool(card.does),
        )
        for card in report_view(run).cards
    }
