"""Few-shot tasks: the lists that we ship, a user's own, and the prompts made of them."""

from pathlib import Path

import pytest

import headcount
from headcount.core import InputError, ModelError
from headcount.models import Loaded
from headcount.skills import SkillOptions
from headcount.skills.function_vectors import SHOTS, Prompts, read_tasks
from tests import saved


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.llama(tmp_path_factory.mktemp("llama")))


def test_our_tasks_have_pairs_without_repetition() -> None:
    tasks = read_tasks()
    assert [task.name for task in tasks] == [
        *("antonyms", "capitals of countries", "from English to French", "past tenses", "plurals")
    ], "titles, not names of files"
    for task in tasks:
        questions, answers = zip(*task.pairs, strict=True)
        assert len(questions) >= 40
        assert len({*questions}) == len({*answers}) == len(task.pairs)
        assert not any(question == answer for question, answer in task.pairs)
    assert len({task.sha256 for task in tasks}) == len(tasks)


def _task(folder: Path, name: str, *lines: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.tsv").write_text("".join(f"{line}\n" for line in lines))
    return folder


NUMBERS = [f"{number}\t{number + 1}" for number in range(10)]


def test_a_folder_adds_tasks(tmp_path: Path) -> None:
    found = read_tasks(_task(tmp_path, "next", *NUMBERS, NUMBERS[0]))
    assert found[:5] == read_tasks() and found[5].name == "next"
    assert found[5].pairs == tuple((str(n), str(n + 1)) for n in range(10)), "no pair twice"


@pytest.mark.parametrize(
    ("name", "lines", "says"),
    [
        ("next", NUMBERS[:9], "at least 10 pairs of words in .*next.tsv, got 9"),
        ("next", [*NUMBERS, "11"], "next.tsv:11"),
        ("past_tenses", NUMBERS, "other names than those of our tasks, got past tenses"),
    ],
)
def test_tasks_that_cannot_be_used(tmp_path: Path, name: str, lines: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_tasks(_task(tmp_path, name, *lines))


def test_folders_without_tasks(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match="a folder of .tsv files, each a task of word pairs"):
            read_tasks(folder)


@pytest.mark.slow
def test_prompts_ask_for_a_word_behind_examples(loaded: Loaded) -> None:
    """Clean and shuffled prompts hold the same words and ask the same; no example is right."""
    tasks, tokenizer = read_tasks(), loaded.tokenizer
    assert tokenizer is not None
    found = Prompts(loaded, tasks, SkillOptions(prompts=60)).all
    assert [each.task for each in found] == [task.name for task in tasks for _ in range(60)]
    pairs = {task.name: dict(task.pairs) for task in tasks}
    for prompt in found:
        clean, shuffled = (
            [
                line.split(maxsplit=1)[1:]
                for line in str(tokenizer.decode(list(ids), skip_special_tokens=True)).splitlines()
                if line.strip()
            ]
            for ids in (prompt.clean, prompt.shuffled)
        )
        *examples, asked, end = clean
        assert len(examples) == 2 * SHOTS and shuffled[-2:] == [asked, end] and end == []
        right = pairs[prompt.task]
        for question, answer, other in zip(
            examples[::2], examples[1::2], shuffled[1:-2:2], strict=True
        ):
            assert right[question[0]] == answer[0] != other[0] and question != asked
        assert shuffled[:-2:2] == examples[::2]
        assert sorted(shuffled[1:-2:2]) == sorted(examples[1::2])
        begins = str(tokenizer.decode([prompt.answer])).strip()
        assert right[asked[0]].startswith(begins) or begins == "\ufffd", "a byte of a letter"
        assert begins
    questions = [str(tokenizer.decode(list(each.clean[-8:]))) for each in found[:50]]
    assert len({*questions}) == 50, "no question comes back before all were asked"
    assert Prompts(loaded, tasks, SkillOptions(prompts=60)).all == found
    assert Prompts(loaded, tasks, SkillOptions(prompts=60, seed=1)).all != found


def test_blanks_of_their_own_are_of_the_prompt(loaded: Loaded, tmp_path: Path) -> None:
    """Digits follow a lone blank in many vocabularies; it must not count as the answer."""
    tasks = read_tasks(_task(tmp_path, "next", *NUMBERS))[5:]
    prompts = Prompts(loaded, tasks, SkillOptions(prompts=10)).all
    assert len({prompt.answer for prompt in prompts}) > 5


@pytest.mark.slow
def test_models_with_short_contexts(tmp_path: Path) -> None:
    gpt2 = headcount.load(saved.gpt2(tmp_path / "gpt2"))
    folder = _task(tmp_path / "tasks", "long", *(f"{n} {'more ' * 20}\t{n}" for n in range(10)))
    with pytest.raises(ModelError, match="as many as the longest few-shot prompt has, got"):
        Prompts(gpt2, read_tasks(folder), SkillOptions())
