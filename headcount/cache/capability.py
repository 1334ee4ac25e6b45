"""The manifest of `headcount cache`."""

from headcount.core import Capability

CACHE = Capability(
    name="cache",
    group="Make the cache or the model smaller",
    sentence="Choose which key/value groups keep few tokens, and judge that.",
    command="headcount.cli.smaller:CacheCommand",
    result="headcount.results.cache_plan:PlannedCache",
    document="headcount.reports.documents.cache:cache_document",
    shares_work=True,
)
