"""The capabilities that headcount brings, in the order of `headcount --help`.

Each is a folder with a manifest; plug-ins add theirs, see `headcount.core.Registry`.
"""

from headcount.core import Capability, Registry

CAPABILITIES: Registry[Capability] = Registry(
    "commands",
    "a command",
    {
        "analyze": "headcount.analysis.capability:ANALYZE",
        "cluster": "headcount.clusters.capability:CLUSTER",
        "align": "headcount.alignment.capability:ALIGN",
        "coreference": "headcount.coreference.capability:COREFERENCE",
        "probe": "headcount.probing.capability:PROBE",
        "evolve": "headcount.papers.capability:EVOLVE",
        "serve": "headcount.serve.capability:SERVE",
        "explain": "headcount.explanation.capability:EXPLAIN",
        "skills": "headcount.skills.capability:SKILLS",
        "importance": "headcount.importance.capability:IMPORTANCE",
        "sensitivity": "headcount.importance.capability:SENSITIVITY",
        "evaluate": "headcount.importance.capability:EVALUATE",
        "cache": "headcount.cache.capability:CACHE",
        "prune": "headcount.artifact.capability:PRUNE",
        "curve": "headcount.pruning.capability:CURVE",
        "compact": "headcount.artifact.capability:COMPACT",
        "speed": "headcount.artifact.capability:SPEED",
        "export": "headcount.artifact.capability:EXPORT",
        "train": "headcount.papers.capability:TRAIN",
        "finetune": "headcount.artifact.capability:FINETUNE",
        "follow": "headcount.papers.capability:FOLLOW",
        "report": "headcount.reporting.capability:REPORT",
        "cite": "headcount.reporting.capability:CITE",
        "compare": "headcount.compare.capability:COMPARE",
        "atlas": "headcount.atlas.capability:ATLAS",
        "reproduce": "headcount.papers.capability:REPRODUCE",
        "check": "headcount.testing.capability:CHECK",
        "doctor": "headcount.reporting.capability:DOCTOR",
        "demo": "headcount.reporting.capability:DEMO",
        "sample": "headcount.reporting.capability:SAMPLE",
    },
)
"""Every capability by the name of its command."""

REGISTRIES = (
    "headcount.importance.options:SCORES",
    "headcount.tasks.options:TASKS",
    "headcount.pruning.options:METHODS",
    "headcount.explanation.effects:EFFECTS",
    "headcount.skills.skill:SKILL_CLASSES",
    "headcount.corpora.formats:FORMATS",
    "headcount.measures.registry:REGISTRY",
    "headcount.measures.key_classes:TRAIT_CLASSES",
    "headcount.corpora.word_links:RELATIONS",
    f"{__name__}:CAPABILITIES",
)
"""Where the registry of every family of things that plug-ins add is."""
