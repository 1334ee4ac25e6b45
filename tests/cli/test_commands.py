import json
import re
from dataclasses import dataclass, fields
from pathlib import Path
from shutil import copytree

import pytest
import torch
from safetensors.torch import load_file, save_file

from headcount import pages
from headcount.capabilities import CAPABILITIES as COMMANDS
from headcount.commands.command_line import command_class, main
from headcount.commands.loop import Command, ResultCommand
from headcount.core import capabilities
from headcount.models import load, revision
from tests.commanding import ROOT, SAMPLE, headcount, start
from tests.turns import slow

RECORDING = [name for name in COMMANDS if command_class(name).record_name()]
"""The commands that write a record."""
TABULAR = [name for name in COMMANDS if command_class(name).writes_tables()]
"""The commands that write tables."""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["write_report", *slow("write")])
def test_a_summary_is_printed_before_a_page_can_fail(
    what: str, bert: Path, tmp_path: Path, data: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that writes the page is named, unless the numbers were not stored either."""
    from headcount import importance

    few, out = ("--limit", 8, "--out", tmp_path / "out"), tmp_path / "out"
    again = f"This writes it again: headcount report {out}"

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", "a file")

    with monkeypatch.context() as patch:
        patch.setattr(importance.Assessment if what == "write" else pages, what, fail)
        status, output, errors = headcount("analyze", bert, SAMPLE, *few)
        if what == "write":
            on = ("--task", "masked-lm", "--data", data[0], "--methods", "norm")
            status, output, errors = headcount("importance", bert, *on, *few)
        assert status == 2 and "The disk is full" in errors
        assert ("by output norm" if what == "write" else "heads on 8 sentences") in output
        assert "Page:" not in output and (again in errors) is (what == "write_report")
    assert headcount("report", out)[1].startswith(f"Page: {out / 'report.html'}\n")


@pytest.mark.slow
def test_the_command_that_writes_a_page_stands_below_an_unexpected_error(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a mistake of ours")

    monkeypatch.setattr(pages, "write_report", fail)
    with pytest.raises(KeyError) as raised:
        main(["analyze", str(bert), str(SAMPLE), "--limit", "8", "--out", str(tmp_path / "out")])
    (note,) = raised.value.__notes__
    assert note.endswith(f"headcount report {tmp_path / 'out'}")


@pytest.mark.slow
@pytest.mark.usefixtures("page")
def test_report_command_writes_figures(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out[seed=1]"  # no markup
    status, output, _ = headcount("analyze", bert, SAMPLE, "--out", out, "--limit", 20)
    assert status == 0 and f"Page: {out / 'report.html'}" in output
    (out / "report.html").unlink()
    status, _, errors = headcount("report", out)
    assert status == 0, errors
    assert (out / "report.html").exists()
    assert {path.suffix for path in (out / "figures").iterdir()} == {".svg", ".png", ".pdf"}


@pytest.mark.parametrize("word", ["--all", "--completions"])
def test_an_option_in_place_of_a_command_is_refused(word: str) -> None:
    status, _, errors = headcount(word)
    assert status == 2 and "Expected a command (one of " in errors and repr(word) in errors


@pytest.mark.slow
def test_a_command_that_was_refused_can_be_given_again(bert: Path, tmp_path: Path) -> None:
    arguments = (SAMPLE, "--limit", 4, "--out", tmp_path / "out")
    status, _, errors = headcount("analyze", tmp_path / "none", *arguments)
    assert status == 2 and "can't be loaded" in errors
    assert headcount("analyze", bert, *arguments)[0] == 0


def test_files_that_can_t_be_read(bert: Path, tmp_path: Path) -> None:
    """A missing tokenizer is reported where it is needed, and so is a field of the wrong type."""
    dense = json.loads((bert / "tokenizer.json").read_text())
    broken = tmp_path / "broken"
    copytree(bert, broken)
    (broken / "tokenizer.json").write_text(json.dumps(dense | {"model": {"type": "none such"}}))
    with pytest.warns(UserWarning, match="broken: its tokenizer can't be read and is ignored: "):
        assert load(broken).tokenizer is None
    with pytest.warns(UserWarning, match="can't be read"):
        status, _, errors = headcount("analyze", broken, SAMPLE, "--out", tmp_path / "out")
    assert status == 2 and "Expected a tokenizer beside the weights" in errors
    config = json.loads((bert / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"num_hidden_layers": "two"}))
    status, _, errors = headcount("analyze", broken, SAMPLE, "--out", tmp_path / "out")
    assert status == 2 and "can't be loaded" in errors and "num_hidden_layers" in errors


def test_weights_that_the_files_lack_are_reported_and_the_same_in_every_run(
    bert: Path, tmp_path: Path
) -> None:
    """Otherwise nothing could be resumed: each process would have another model."""
    lacking = tmp_path / "lacking"
    copytree(bert, lacking)
    tensors = load_file(lacking / "model.safetensors")
    name = "bert.encoder.layer.1.output.dense.weight"
    del tensors[name], tensors["bert.embeddings.LayerNorm.bias"]
    save_file(tensors, lacking / "model.safetensors", {"format": "pt"})
    drawn = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        reported = (
            r"lacking: its files lack bert.embeddings.LayerNorm.bias and 1 more, which a BertFor"
        )
        with pytest.warns(UserWarning, match=reported):
            drawn.append(load(lacking).model)
        assert torch.rand(()) == torch.rand((), generator=torch.Generator().manual_seed(seed))
    assert revision(drawn[0]) == revision(drawn[1])
    assert drawn[0].get_parameter(name).std() > 0


@pytest.mark.slow
def test_out_that_exists_is_refused_and_untouched(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("analyze", bert, SAMPLE, "--limit", 8, "--out", out)
    assert headcount(*arguments)[0] == 0
    before = {path: path.read_bytes() for path in out.iterdir() if path.is_file()}
    status, _, errors = headcount(*arguments)
    assert status == 2 and "--resume" in errors and "--overwrite" in errors
    assert before == {path: path.read_bytes() for path in out.iterdir() if path.is_file()}
    kept = out / "state" / "sweep.safetensors"
    kept.write_text("of an assessment, hours of work")
    wrong = ("analyze", tmp_path / "mistyped", SAMPLE, "--out", out, "--overwrite")
    assert headcount(*wrong)[0] == 2 and kept.exists()
    assert headcount(*arguments, "--overwrite")[0] == 0 and not kept.exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    status, _, errors = headcount(*arguments[:-1], tmp_path / "mine", "--overwrite")
    assert status == 2 and "thesis.tex" in errors
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "precious"


@pytest.mark.slow
def test_doctor(bert: Path, marian: Path, tmp_path: Path) -> None:
    status, output, _ = headcount("doctor", bert)
    assert status == 0 and "encoder.self 2 layers x 3 heads" in output
    assert "slow" in headcount("doctor", marian)[1]
    missing = tmp_path / ("nothing" * 20)
    status, output, _ = headcount("doctor", missing)
    assert status == 1 and "there is no folder" in output
    assert str(missing) in "".join(
        line[len("does not  loading") :].strip() for line in output.splitlines()
    )


@pytest.mark.slow
def test_a_reader_that_has_seen_enough() -> None:
    """`headcount analyze --help | head -1` shows no traceback."""
    with start("analyze", "--help") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.slow
def test_quiet_prints_warnings_only(bert: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.txt"
    long.write_text("a " * 200 + "\nb\n", encoding="utf-8")
    run = ("analyze", bert, long, "--out", tmp_path / "out")
    status, output, errors = headcount(*run, "--quiet")
    assert (status, output) == (0, ""), errors
    assert errors.count("\n") == errors.count("warning: ") >= 1, "no progress either"
    status, output, errors = headcount(*run, "--quiet")
    assert status == 2 and not output and "--overwrite" in errors
    status, output, errors = headcount(*run, "--overwrite")
    assert "Analysed 6 heads" in output and "measuring" in errors, "the next command is not quiet"


@pytest.mark.slow
def test_json_prints_the_record(bert: Path, data: list[Path], tmp_path: Path) -> None:
    task = ("--task", "masked-lm", "--data", data[0])
    out = tmp_path / "worth"
    command = ("importance", bert, *task, "--methods", "norm", "--json")
    status, output, errors = headcount(*command, "--out", out)
    assert status == 0 and "Next:" not in output, errors
    assert json.loads(output) == json.loads((out / "importance.json").read_text())
    status, output, errors = headcount("evaluate", bert, *task, "--json")
    assert status == 2 and not output and "Expected --out, since --json" in errors
    status, _, errors = headcount("doctor", bert, "--json")
    assert status == 2 and "Expected a command that writes a record" in errors
    status, _, errors = headcount("--json", "evaluate", bert, *task)
    assert status == 2 and "Expected --out, since --json" in errors, "it may stand first"
    status, output, _ = headcount("--quiet")
    assert status == 2 and "headcount demo" in output


@pytest.mark.slow
def test_csv_beside_every_table(
    bert: Path, data: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    analyze = ("analyze", bert, data[0], "--limit", 5, "--out", out)
    status, output, errors = headcount(*analyze, "--csv")
    assert status == 0, errors
    assert f"CSV in {out}: heads.csv, " in output
    assert {path.stem for path in out.glob("*.csv")} == {path.stem for path in out.glob("*.pa*")}
    task = ("--task", "masked-lm", "--data", data[0], "--methods", "norm", "--out", out)
    assert headcount("importance", bert, *task)[0] == 0
    assert "norm" in (out / "heads.csv").read_text().splitlines()[0], "the copy is kept up to date"
    (out / "heads.csv").unlink()
    monkeypatch.setattr("headcount.reporting.command.Report.run", lambda self: 0)
    assert headcount("report", out, "--csv")[0] == 0 and (out / "heads.csv").exists()
    status, _, errors = headcount("doctor", bert, "--csv")
    assert status == 2 and "Expected a command that writes tables" in errors
    again = headcount(*analyze, "--csv", "--overwrite", "--quiet")
    assert (again[0], again[1]) == (0, ""), again[2]


@pytest.mark.once
@pytest.mark.parametrize("name", ["sensitivity", "evolve", "follow", "analyze"])
def test_report_rewrites_what_other_commands_left(
    name: str, tmp_path: Path, one_format: None
) -> None:
    """Without an analysis, too; `--csv` copies the tables."""
    out = tmp_path / "out"
    copytree(ROOT / "tests" / "results" / "data" / "0.2" / name, out)
    for each in ("run.json", "importance.json"):
        (out / each).unlink(missing_ok=True)
    status, output, errors = headcount("report", out, "--csv")
    assert status == 0, errors
    assert any((out / "figures").iterdir()) and any(out.glob("*.csv")) and "figure" in output
    assert not (out / "report.html").exists()


@pytest.mark.parametrize("name", TABULAR)
def test_every_command_with_tables_has_a_folder(name: str) -> None:
    found = command_class(name)
    assert hasattr(found, "out") or "out" in {each.name for each in fields(found)}  # type: ignore[arg-type]


def test_one_process_prints_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As under torchrun, where every process runs the command."""
    (tmp_path / "run.json").write_text("{}")

    @dataclass
    class Done(Command):
        RECORD = "run.json"
        out: Path = tmp_path

        def run(self) -> int:
            return 0

    monkeypatch.setattr("headcount.commands.command_line.parse", lambda words: Done())
    for is_main in (True, False):
        monkeypatch.setattr(
            "headcount.commands.command_line.is_main_process", lambda is_main=is_main: is_main
        )
        assert main(["analyze", "--json"]) == 0
        assert capsys.readouterr().out == ("{}" if is_main else "")


def test_commands_declare_what_they_write() -> None:
    none = {"serve", "compact", "export", "report", "compare", "reproduce", "doctor", "demo"}
    none |= {"sample", "check", "cite", "atlas"}
    assert {*COMMANDS} - {*RECORDING} == none
    without = {"serve", "evaluate", "prune", "compact", "speed", "export"}
    without |= {"train", "finetune", "compare", "doctor", "sample", "check", "cite", "atlas"}
    assert {*COMMANDS} - {*TABULAR} == without


def test_every_result_of_a_command_has_a_document() -> None:
    """Without its line, a run would end in an error after hours, or be no result to `report`."""
    for its in capabilities():
        if issubclass(kind := command_class(its.name), ResultCommand):
            assert its.document and kind.RESULT is its.result_type, its.name
            assert kind.RESULT is not None and kind.RESULT.DOCUMENTS, its.name


@pytest.mark.parametrize("name", RECORDING)
def test_every_record_belongs_to_a_command_with_a_folder(name: str) -> None:
    assert "out" in {each.name for each in fields(command_class(name))}  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*COMMANDS])
def test_help_is_in_words_for_persons(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Values have names, a default means something, and no option has a second line for its no."""
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    shown = capsys.readouterr().out
    assert f"usage: headcount {name}" in shown
    parser_words = (
        "{None",
        "(default: )",
        "(default: '')",
        "Whether ",
        " None ",
        "(default: None)",
        "(default: False)",
        ", --no-",
        "[STR",
        "[{",
    )
    for said in parser_words:
        assert said not in shown, said
    plain = shown.replace("│", " ")
    no = re.findall(r"^ +--(?:[\w-]+\.)*no-[\w-]+\s+(.+\s+.+)", plain, re.MULTILINE)
    assert all("n't " in words for words in no if "is needed" not in words), no
    assert no or name != "importance"
    options = re.findall(r"^ +(--[\w.-]+)", plain, re.MULTILINE)
    last = [options.index(each) for each in ("--device", "--check") if each in options]
    firsts = [options.index(each) for each in ("--out", "--data", "--target") if each in options]
    assert not last or not firsts or max(firsts) < min(last)
    assert last or name != "analyze"
