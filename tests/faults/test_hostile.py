"""What a folder or a user could do to other files, and what must not leave a machine."""

import json
import os
import re
import shutil
import socket
from pathlib import Path

import pandas as pd
import pytest
from markdown_it import MarkdownIt
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

import headcount
from headcount.core import HeadTable, InputError, ModelError, Plan, visible
from headcount.corpora import Sentence
from tests import saved
from tests.cli.test_memory import RUNS
from tests.commanding import PARALLEL, SAMPLE
from tests.commanding import headcount as run
from tests.compaction.plans import plan
from tests.models.test_gguf import write as write_gguf


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "config.json").write_text("mine")
    return folder


def _unchanged(victim: Path) -> bool:
    return [path.name for path in victim.iterdir()] == ["config.json"] and (
        victim / "config.json"
    ).read_text() == "mine"


@pytest.mark.parametrize("path", ["../victim", "/tmp/victim", "1_Pooling", "a/../../victim"])
def test_modules_outside_the_model(path: str, tmp_path: Path, victim: Path):
    model = saved.bert(tmp_path / "bert")
    modules = [{"type": "sentence_transformers.models.Pooling", "path": path}]
    (model / "modules.json").write_text(json.dumps(modules))
    if path == "1_Pooling":
        (model / path).symlink_to(victim)
    status, _, errors = run("compact", model, "--plan", plan(tmp_path), "--out", tmp_path / "out")
    says = "files inside" if path == "1_Pooling" else "inside the model's folder in modules.json"
    assert status == 2 and says in errors, errors
    assert _unchanged(victim)


@pytest.mark.parametrize("name", ["../victim/config.json", "/etc/hostname"])
def test_weights_outside_the_model(name: str, tmp_path: Path, victim: Path):
    model = saved.bert(tmp_path / "bert")
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(ModelError, match=r"can't be loaded: Expected paths inside"):
        headcount.load(model)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_named_pipe_in_a_model_is_not_waited_for(name: str, tmp_path: Path):
    model = saved.bert(tmp_path / "bert")
    (model / name).unlink()
    os.mkfifo(model / name)
    with pytest.raises(ModelError, match=rf"{name} is a named pipe, a socket or a device"):
        headcount.load(model)


@pytest.mark.once
@pytest.mark.parametrize("field", ["_attn_implementation", "attn_implementation"])
@pytest.mark.parametrize("is_compact", [False, True])
def test_kernels_of_the_hub_are_not_fetched(field: str, is_compact: bool, tmp_path: Path):
    model = saved.bert(tmp_path / "bert")
    if is_compact:
        assert run("compact", model, "--plan", plan(tmp_path), "--out", tmp_path / "out")[0] == 0
        model = tmp_path / "out"
    config = json.loads((model / "config.json").read_text())
    for value in ("kernels-community/flash-attn", "paged|a/b@main:c", {"": "a/b"}):
        (model / "config.json").write_text(json.dumps(config | {field: value}))
        with pytest.raises(ModelError, match="fetched from the hub and run. Delete the name, or"):
            headcount.load(model)
        with pytest.raises(ModelError, match="kernels"):  # trusted, it reaches transformers
            headcount.load(model, trust_remote_code=True)
    # transformers replaces it by a kernel of the hub where its own package is missing
    (model / "config.json").write_text(json.dumps(config | {field: "flash_attention_2"}))
    assert headcount.load(model).model.config._attn_implementation == "sdpa"
    (model / "config.json").write_text(json.dumps(config | {field: "eager"}))
    assert headcount.load(model).model.config._attn_implementation == "eager"


HOSTILE_NAMES = (
    'x"><img src=1 onerror=alert(1)>',
    "a\n# b\n\n<script>alert(1)",
    "[x](http:) ![y](z) <http:a> `c` **d** | e",
    "`` `` <b>",
    "www.evil.example a@b.example",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_the_card_shows_the_name_of_a_model_on_one_line(name: str, bert: Path, tmp_path: Path):
    model, out = shutil.copytree(bert, tmp_path / name), tmp_path / "out"
    assert run("compact", model, "--plan", plan(tmp_path), "--out", out)[0] == 0
    card = (out / "README.md").read_text(encoding="utf-8")
    markdown = MarkdownIt("gfm-like", {"linkify": False})
    _, read_by_hub, card = card.split("---\n", 2)
    assert set("<>`[]#*@").isdisjoint(read_by_hub)
    blocks = markdown.parse(card)
    tags = {each.tag for block in blocks for each in (block, *(block.children or ()))}
    kinds = {each.type for block in blocks for each in (block, *(block.children or ()))}
    assert not kinds & {"html_block", "html_inline"} and not tags & {"a", "img"}
    assert [each.tag for each in blocks if each.type == "heading_open"].count("h1") == 1
    title = blocks[1].children or ()
    assert "".join(each.content for each in title).startswith(f"{' '.join(name.split())}, ")
    assert not re.search(r"www\.|https?://|\w@", card.split("`headcount.load")[0])


def test_links_to_blobs_of_the_hub_are_read(tmp_path: Path):
    blobs, snapshot = tmp_path / "models--a--b" / "blobs", tmp_path / "models--a--b" / "snapshots"
    shutil.move(saved.bert(tmp_path / "bert"), blobs)
    (snapshot / "1f").mkdir(parents=True)
    for path in blobs.iterdir():
        (snapshot / "1f" / path.name).symlink_to(f"../../blobs/{path.name}")
    assert len(headcount.load(snapshot / "1f").heads)


@pytest.mark.parametrize(
    ("command", "inner"),
    [
        ("analyze", "state"),
        ("importance", "state"),
        ("train", "checkpoints"),
        ("report", "figures"),
    ],
)
def test_nothing_is_written_through_a_link(
    command: str, inner: str, bert: Path, tmp_path: Path, victim: Path
):
    from tests.commanding import DATA, TINY

    out = tmp_path / "out"
    shutil.copytree(Path(__file__).parents[1] / "results" / "data" / "run", out)
    (out / "training.json").write_text("{}") if command == "train" else None
    (out / inner).symlink_to(victim)
    arguments = {
        "analyze": (bert, SAMPLE, "--out", out, "--overwrite"),
        "importance": (
            bert,
            "--task",
            "masked-lm",
            "--data",
            PARALLEL,
            *("--columns", "text=0"),
            "--methods",
            "gradient",
            "--out",
            out,
            "--overwrite",
        ),
        "train": ("translation", *DATA, *TINY, "--out", out, "--overwrite"),
        "report": (out,),
    }[command]
    status, _, errors = run(command, *arguments)
    assert status == 2 and "Expected no links in a folder for results" in errors, errors
    assert _unchanged(victim)


@pytest.mark.slow
def test_files_of_the_user_in_a_training_stay(tmp_path: Path):
    from tests.commanding import COLUMNS, DATA, TINY

    out = tmp_path / "out"
    arguments = ("train", "translation", *DATA, *TINY, "epochs=1", "--out", out)
    assert run(*arguments)[0] == 0
    shutil.copy(PARALLEL, out / "train.tsv")
    own = ("train", "translation", "--data", out / "train.tsv", *COLUMNS, *TINY, "--out", out)
    status, _, errors = run(*own, "--overwrite")
    assert status == 2 and "train.tsv, but would replace all of" in errors
    (out / "notes.txt").write_text("mine")
    status, _, errors = run(*arguments, "--overwrite")
    assert status == 2 and "files that headcount did not write (notes.txt)" in errors
    assert (out / "notes.txt").read_text() == "mine" and (out / "train.tsv").exists()


@pytest.mark.slow
@pytest.mark.parametrize("listed", [True, False], ids=["", "from before there was a list"])
def test_files_of_the_user_in_a_compact_model_stay(listed: bool, bert: Path, tmp_path: Path):
    out = tmp_path / "out"
    arguments = ("compact", bert, "--plan", plan(tmp_path), "--out", out)
    assert run(*arguments)[0] == 0
    if not listed:
        (out / "written.json").unlink()
    (out / "onnx").mkdir()
    for graph in ("model", "encoder", "decoder"):  # of `headcount export`
        (out / "onnx" / f"{graph}.onnx").touch()
        (out / "onnx" / f"{graph}.onnx.data").touch()
    assert run(*arguments, "--overwrite")[0] == 0
    (out / "notes.txt").write_text("mine")
    status, _, errors = run(*arguments, "--overwrite")
    assert status == 2 and "files that headcount did not write (notes.txt)" in errors
    assert (out / "notes.txt").read_text() == "mine"


def test_two_processes_do_not_write_one_folder(tmp_path: Path):
    from headcount.artifact.staging import replaced

    with replaced(tmp_path / "out") as staging:
        (staging / "half").touch()
        with pytest.raises(InputError, match="Another process is writing .*out. Wait"):
            with replaced(tmp_path / "out"):
                pass
        assert (staging / "half").exists()
    assert (tmp_path / "out" / "half").exists()


@pytest.mark.once
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder where none can be made")
@pytest.mark.parametrize("command", ["analyze", "compact", "evaluate"])
def test_where_no_folder_can_be_made(command: str, bert: Path, tmp_path: Path):
    task = ("--task", "masked-lm", "--data", PARALLEL, "--columns", "text=0", "--limit", 2)
    arguments = {"analyze": (SAMPLE,), "compact": ("--plan", plan(tmp_path)), "evaluate": task}
    status, _, errors = run(command, bert, *arguments[command], "--out", "/proc/none")
    assert status == 2 and "/proc/none" in errors and "can't be made" in errors, errors


def test_a_file_is_no_model():
    """The hub is not asked for it."""
    with pytest.raises(ModelError, match=r"got the file .*conllu'. Name a folder"):
        headcount.load(SAMPLE)


def test_a_missing_folder_is_not_blamed_on_the_hub(monkeypatch: pytest.MonkeyPatch):
    def offline(*_: object, **__: object) -> None:
        raise OSError("We couldn't connect to 'https://huggingface.co' to load the files.")

    monkeypatch.setattr("headcount.models.loading.AutoConfig.from_pretrained", offline)
    monkeypatch.setattr("headcount.models.loading.transformer_folder", lambda place: "")
    with pytest.raises(ModelError, match=r"there is no folder 'models/none' here, and no model"):
        headcount.load("models/none")


@pytest.mark.slow
def test_trained_weights_let_the_certificate_lapse(bert: Path, tmp_path: Path):
    from headcount.artifact import save_compact
    from headcount.doctor import diagnose

    out, loaded = tmp_path / "small", headcount.load(bert)
    save_compact(
        loaded, Plan({"encoder.self": {0: (1,)}}), out, headcount.Corpus([SAMPLE], limit=2)
    )
    model = headcount.load(out).model
    next(iter(model.parameters())).data += 0.5
    model.save_pretrained(out)
    with pytest.warns(UserWarning, match="small: the weights differ from those that were compared"):
        again = headcount.load(out)
    assert len(again.heads) == len(loaded.heads) - 2
    with pytest.warns(UserWarning, match="the weights differ"):
        findings = {each.subject: each for each in diagnose(out)}
    assert not findings["certificate"].works and findings["self-check"].works
    few = ("--batch", 1, "--length", 5, "--rounds", 2)
    with pytest.warns(UserWarning, match="the weights differ"):
        status, _, errors = run("speed", bert, out, "--card", *few)
    assert status == 0, errors
    assert "Warning: the weights have changed since" in (out / "README.md").read_text()


@pytest.mark.slow
def test_no_path_of_this_machine_is_written(bert: Path, data: list[Path], tmp_path: Path):
    """Records, tables, reports and cards name files, not their folders."""
    task = ("--task", "masked-lm", "--data", data[0], "--limit", 3)
    out = tmp_path / "out"
    for arguments in (
        ("analyze", bert, SAMPLE, "--limit", 3, "--out", out),
        ("importance", bert, *task, "--methods", "gradient", "--out", out),
        ("evaluate", bert, *task, "--out", out),
        ("prune", bert, *task, "--dev", data[1], "--keep", 2, "--out", tmp_path / "pruned"),
        ("compact", bert, "--plan", plan(tmp_path), "--out", tmp_path / "small"),
    ):
        status, _, errors = run(*arguments)
        assert status == 0, errors
    places = {str(path).encode() for path in (tmp_path, bert.parent, data[0].parent, SAMPLE.parent)}
    for folder in (out, tmp_path / "pruned", tmp_path / "small"):
        for path in folder.rglob("*"):
            if path.is_file() and "state" not in path.parts:
                content = path.read_bytes()
                assert not [each for each in places if each in content], path
    assert os.sep not in json.loads((out / "run.json").read_text())["model"]


@pytest.mark.parametrize(
    ("size", "says"),
    [(1, "a vocabulary with tokens besides those for padding"), (2, "at most one token besides")],
)
def test_a_vocabulary_of_one_token(size: int, says: str, tmp_path: Path):
    config = BertConfig(
        vocab_size=size,
        hidden_size=4,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=4,
        max_position_embeddings=32,
    )
    BertForMaskedLM(config).save_pretrained(tmp_path / "model")
    words = Tokenizer(WordLevel({"ab"[number]: number for number in range(size)}, unk_token="a"))
    fast = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="a", pad_token="a")
    fast.save_pretrained(tmp_path / "model")
    status, _, errors = run("analyze", tmp_path / "model", SAMPLE, "--out", tmp_path / "out")
    assert status == 2 and says in errors


ESCAPES = "a\x1b]0;t\x07\x1b[31m\x9b\u202e\udcff"
"""Set the title, colour, write backwards, and a byte that is no UTF-8: as a file could be named."""


@pytest.mark.slow
def test_no_file_holds_control_characters(bert: Path, page: None, tmp_path: Path):
    """Not of the names of models, files and folders, nor of texts."""
    corpus, out = tmp_path / f"{ESCAPES}.conllu", tmp_path / "out"
    lines = SAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)
    words = [line.replace("\tthe\t", f"\tthe{ESCAPES[:-1]}\t", 1) for line in lines]
    corpus.write_text("".join(words), encoding="utf-8")
    model = shutil.copytree(bert, tmp_path / f"m{ESCAPES[:-1]}")
    for arguments in (
        ("analyze", model, corpus, "--limit", 20, "--out", out),
        ("report", out, "--formats", "svg"),
        ("compare", out, out, "--out", tmp_path / "compared"),
        ("compact", model, "--plan", plan(tmp_path), "--out", tmp_path / "small"),
    ):
        status, _, errors = run(*arguments)
        assert status == 0, errors
    written = [out, tmp_path / "compared", tmp_path / "small" / "README.md"]
    texts = (path for each in written for path in (each, *each.rglob("*")))
    kinds = (".html", ".md", ".json", ".svg")
    found = [path for path in texts if path.suffix in kinds]
    assert {path.suffix for path in found} == {*kinds}
    for path in found:
        text = path.read_text(encoding="utf-8")
        assert visible(text) == text.replace("\r", "\u240d"), path
    assert "a\u241b]0;t\u2407\u241b[31m" in (out / "report.html").read_text(encoding="utf-8")


HALF = "\ud83d"
"""Half of a surrogate pair, which JSON can spell and no tokenizer takes."""


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "MODEL", "The [MASK]", "--target", HALF),
        ("explain", "MODEL", "The [MASK]", "--target", "dog", "--against", HALF),
        ("explain", "MODEL", HALF, "--target", "dog"),
        ("explain", "MODEL", "The [MASK]", "--target", "dog", "--key", "\udcff"),
        ("explain", "MODEL", "--prompts", "FILE"),
        ("analyze", "MODEL", "FILE", "--columns", "text=prompt"),
        ("analyze", HALF, "FILE"),
        ("align", "MODEL", "FILE", "--gold", "FILE", "--join", HALF),
        (
            "importance",
            "MODEL",
            "--task",
            "masked-lm",
            "--data",
            "FILE",
            "--columns",
            f"text={HALF}",
        ),
    ],
)
def test_half_a_character_ends_in_a_sentence(arguments: tuple, bert: Path, tmp_path: Path):
    """Wherever a text comes from: it is refused before a tokenizer fails on it."""
    file = tmp_path / "rows.jsonl"
    rows = [{"prompt": "The [MASK]", "target": HALF}, {"prompt": HALF, "target": "dog"}]
    file.write_text("\n".join(map(json.dumps, rows)))
    named = {"MODEL": bert, "FILE": file}
    status, _, errors = run(*(named.get(each, each) for each in arguments), "--out", tmp_path / "o")
    assert status == 2 and HALF not in errors, errors
    assert "hole characters in" in errors or "to hold some text" in errors


def test_half_a_character_in_python_ends_in_a_sentence():
    from headcount.explanation import ExplainOptions, Prompt

    for build in (
        lambda: Sentence("a", target=HALF),
        lambda: Sentence("a", second=HALF),
        lambda: Sentence("a b", words=("a", HALF)),
        lambda: Prompt("a", HALF),
        lambda: ExplainOptions(query=HALF),
    ):
        with pytest.raises(InputError, match="xpected whole characters in"):
            build()


def test_a_csv_obeys_no_terminal(tmp_path: Path):
    """Nor does a table that a text of the user's stands in, such as a prompt of explain."""
    frame = pd.DataFrame({"head": ["enc.0.0"], "text": [ESCAPES[:-1]]})
    text = HeadTable(frame).to_csv()
    assert visible(text) == text and "a\u241b]0;t\u2407\u241b[31m\ufffd" in text


def waiting(folder: Path, kind: str) -> Path:
    """A file whose reader would wait, or never end."""
    place = folder / "waiting"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(place))
    return Path("/dev/zero") if kind == "device" else place


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize("name", RUNS)
def test_a_file_that_makes_its_reader_wait_is_refused(name: str, kind: str, tmp_path: Path):
    """In place of every path among a command's arguments, one after the other."""
    file, arguments = waiting(tmp_path, kind), [*RUNS[name], "--out", tmp_path / "out"]
    named = (
        *("pairs.tsv", "gold", "mentions.conll", "plan.json", "bert", "llama", "bloom", "marian"),
        *("checkpoint-5", "checkpoint-10"),
    )
    places = [n for n, each in enumerate(arguments) if isinstance(each, Path) or each in named]
    assert len(places) > 1
    for place in places:
        given = [*arguments[:place], file, *arguments[place + 1 :]]
        status, _, errors = run(name, *given)
        assert status == 2 and f"{file} is a named pipe, a socket or a device" in errors, errors


def test_a_pipe_among_the_tasks_of_skills_is_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "a.tsv")
    model = saved.llama(tmp_path / "llama")
    status, _, errors = run("skills", model, "--tasks", tmp_path, "--out", tmp_path / "out")
    assert status == 2 and "a.tsv is a named pipe" in errors


def test_a_gguf_that_is_a_pipe_or_breaks_off_gets_its_reason(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.gguf")
    whole = tmp_path / "whole.gguf"
    write_gguf(whole)
    cases = {tmp_path / "pipe.gguf": "is a named pipe"}
    for size in (0, 3, 100, whole.stat().st_size // 2):
        cut = tmp_path / f"cut-{size}.gguf"
        cut.write_bytes(whole.read_bytes()[:size])
        cases[cut] = f"Expected a whole GGUF file, but '{cut}' can't be read: "
    for file, says in cases.items():
        with pytest.raises(ModelError, match=re.escape(says)):
            headcount.load(file)
