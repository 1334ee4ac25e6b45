"""What must hold for every command: what its manifest names is there, and sections read well."""

from functools import cache

from headcount.commands import Command
from headcount.core import Capability, Document, amount, imported
from headcount.results import Analysis
from headcount.testing.checks import (
    LeftOut,
    check,
    expect,
    expect_document,
    expect_options,
    expect_words,
)
from headcount.testing.examples import at_random, planted


@cache
def _analyses() -> tuple[Analysis, ...]:
    """One of a model in which no head has a role, and one in which some do."""
    return at_random().analysis(), planted().analysis()


@check("laws")
def places(given: Capability) -> str:
    """Everything that it names is there, and its arguments are fields of a frozen dataclass."""
    named = (given.command, given.result, given.document, given.page, given.notes, *given.variants)
    found = [*filter(None, named), *(each.document for each in given.sections if each.document)]
    for place in found:
        imported(place)
    kind = imported(given.command)
    expect(issubclass(kind, Command), f"{kind.__name__} is no headcount.commands.Command")
    expect_options(kind)
    return f"{amount(len(found), 'place')}"


@check("words")
def words(given: Capability) -> str:
    """It has a name, a group and a sentence, and its sections have names."""
    expect_words("the name", given.name)
    expect_words("the group", given.group)
    expect_words("the sentence", given.sentence, is_sentence=True)
    for each in given.sections:
        expect_words(f"the name of the section {each.key}", each.short)
    return given.sentence


@check("words")
def sections(given: Capability) -> str:
    """Its sections read well on the pages of models of which no head, and some, have roles."""
    shown = [each for each in given.sections if each.document]
    if not shown:
        raise LeftOut("it has no section of its own")
    for each in shown:
        for analysis in _analyses():
            found = imported(each.document)(analysis)
            if found is not None:
                expect(isinstance(found, Document), f"{each.key} is {type(found)}, no Document")
                expect_document(f"the section {each.key}", found)
    return f"{amount(len(shown), 'section')}"


COMMAND_CHECKS = (places, words, sections)
"""What is asked of every command."""


def command_subject(given: Capability) -> Capability:
    """A command as given to `check_command`."""
    return given
