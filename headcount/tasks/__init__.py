"""Tasks: what quality means. One file a task, and each is data, a loss and a score."""

import lazy_loader

from headcount.core import retired

_own, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = retired(
    __name__,
    {"TaskName": ("TASKS", "Write str: plug-ins add tasks, and TASKS has all names.")},
    _own,
)
