"""What processes that tests start inherit does not depend on who started the tests."""

import json
import os
import subprocess
import sys

from tests.surroundings import ROOT

CODE = """
import json, os, signal, subprocess, sys, time
if sys.argv[1:] == ["tests"]:
    import tests.surroundings
    os._exit(subprocess.run([sys.executable, *sys.orig_argv[1:-1]]).returncode)
shells = ("_", "SHLVL", "PWD", "OLDPWD", "HF_HOME")
numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
print(json.dumps({
    "variables": {name: each for name, each in os.environ.items() if name not in shells},
    "has a cache": os.path.isdir(os.environ["HF_HOME"]),
    "ignored": [each.name for each in numbers if signal.getsignal(each) == signal.SIG_IGN],
    "umask": os.umask(0),
    "zone": time.tzname,
    "encoding": sys.stdout.encoding,
}))
"""


def test_nothing_of_the_caller_decides() -> None:
    found = []
    for caller in ([], [str(ROOT / ".ci" / "elsewhere"), "0"]):
        command = [*caller, sys.executable, "-c", CODE, "tests"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    plain, odd = found
    assert plain == odd
    assert plain["ignored"] == [] and plain["umask"] == 0o022 and plain["encoding"] == "utf-8"
    assert plain["zone"] == ["UTC", "UTC"] and plain["has a cache"]


def test_this_process_is_neutral_too() -> None:
    assert os.environ["PYTHONPATH"].endswith(str(ROOT)) and "COLUMNS" not in os.environ
