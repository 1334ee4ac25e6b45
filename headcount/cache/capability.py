"""The manifest of `headcount cache`."""

from headcount.core import Capability

CACHE = Capability(
    name="cache",
    group="Make the cache or the model smaller",
    sentence="Choose which key/value groups keep few tokens, and judge the plan.",
    docs="cache",
    command="headcount.cache.command:CacheCommand",
    result="headcount.cache.result:PlannedCache",
    document="headcount.cache.document:cache_document",
    notes="headcount.cache.document:cache_notes",
    shares_work=True,
    usual=(
        *("out", "overwrite", "device", "bytes", "max_drop", "stream", "score"),
        *("lengths", "per_length", "needles", "draws", "chat"),
    ),
)
