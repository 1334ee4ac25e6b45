"""Typed records of a run: the only package that reads or writes the files of run folders."""

import lazy_loader

from headcount.core import moved

_own, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = moved(
    __name__,
    {
        "alignment": "Alignment",
        "analysis": "Claim Confirmation Outcome confirm",
        "cache": "PlannedCache",
        "clusters": "Clusters",
        "coreference": "Coreference",
        "explanation": "Explained",
        "importance": "Sensitivity",
        "probing": "Probed",
        "skills": "Skills",
    },
    _own,
)
