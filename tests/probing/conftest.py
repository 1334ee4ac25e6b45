"""Its command is run as those of tests/cli."""

from tests.cli.conftest import bert, page, quick  # noqa: F401 (fixtures)
