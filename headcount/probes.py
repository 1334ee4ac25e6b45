"""Old names, for one release: see probing, alignment, clusters and coreference."""

from headcount.core import moved

__getattr__ = moved(
    __name__,
    {
        "alignment": "AlignmentOptions align",
        "clusters": "ClusterOptions cluster",
        "coreference": "CoreferenceOptions forget_coreference select_antecedents",
        "probing": "PROBES ProbeName ProbeOptions TreebankOptions forget_probes probe",
    },
)
