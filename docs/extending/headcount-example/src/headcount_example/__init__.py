"""A relation, a score, an effect, a task and a command for headcount."""

__version__ = "1.0"
API = "1.0"
