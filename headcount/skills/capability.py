"""The manifest of `headcount skills`."""

from headcount.core import Capability, Section

SKILLS = Capability(
    name="skills",
    group="Explain a prediction or a skill",
    sentence="Measure which heads retrieve facts or carry few-shot tasks.",
    docs="skills",
    command="headcount.skills.command:SkillsCommand",
    result="headcount.skills.result:Skills",
    document="headcount.skills.document:skills_document",
    notes="headcount.skills.document:skills_notes",
    beside=True,
    page="headcount.skills.document:PART",
    sections=(Section("skills", "skills", 10),),
    shares_work=True,
    usual=(
        *("out", "overwrite", "device", "kinds", "lengths", "needles", "prompts", "skills"),
        *("removed", "replace", "limit", "chat"),
    ),
)
