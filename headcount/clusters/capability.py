"""The manifest of `headcount cluster`."""

from headcount.core import Capability, Section

CLUSTER = Capability(
    name="cluster",
    group="Look at what heads do",
    sentence="Group heads that look at the same places.",
    docs="clusters",
    command="headcount.clusters.command:Cluster",
    result="headcount.clusters.result:Clusters",
    document="headcount.clusters.document:clusters_document",
    notes="headcount.clusters.document:clusters_notes",
    takes_roles=True,
    beside=True,
    sections=(Section("clusters", "same places", 90),),
    shares_work=True,
    usual=("source", "target", "limit", "analysis", "out", "overwrite", "device", "within"),
)
