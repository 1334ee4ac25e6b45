"""Its command is run as those of tests/cli."""

from tests.cli.conftest import bert, quick  # noqa: F401 (fixtures)
