"""A folder goes to a hub and comes back; the hub is a server on this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from headcount.artifact import push, save_compact
from headcount.core import InputError, Plan
from headcount.models import load
from headcount.results import Certificate
from tests import saved
from tests.hub_server import TOKEN, serving
from tests.tasks import loaded as small

LOAD = """
import sys, torch
from transformers import AutoModel
model = AutoModel.from_pretrained("owner/small", trust_remote_code=True)
with torch.no_grad():
    found = model(torch.arange(5)[None]).last_hidden_state
torch.save(found, sys.argv[1])
"""


def run(
    command: list[object], home: Path, url: str, token: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of a user who is logged in at a hub."""
    about = {"HF_ENDPOINT": url, "HF_TOKEN": token, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"}
    # The storage of the hub is another protocol; uploads by LFS need no further server.
    about |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        env=os.environ | about,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_a_pushed_folder_loads_from_the_hub(tmp_path: Path) -> None:
    """Card, plan and certificate are there; with a wrong token nothing is, and it is said why."""
    out = tmp_path / "small"
    save_compact(small.loaded("BertModel"), Plan({"encoder.self": {0: (0,)}}), out)
    export = ["-m", "headcount", "export", out, "--push", "owner/small"]
    with serving() as hub:
        refused = run(export, tmp_path / "home", hub.url, "hf_wrong")
        assert refused.returncode == 2 and not hub.files, refused.stderr
        assert "Expected the hub to take owner/small, but it does not: " in refused.stderr
        assert f"`headcount export {out} --push owner/small`" in refused.stderr
        done = run(export, tmp_path / "home", hub.url, TOKEN)
        assert done.returncode == 0, done.stderr
        assert f"Uploaded: {hub.url}/owner/small/commit/" in done.stdout
        assert hub.private == {"owner/small": True}
        assert hub.commits == ["Upload a model pruned with headcount"]
        files = hub.files["owner/small"]
        local = {p.relative_to(out).as_posix(): p for p in out.rglob("*") if p.is_file()}
        assert set(local) - set(files) == {"report.html", "written.json"}
        assert all(files[name] == local[name].read_bytes() for name in files)
        assert {"README.md", "plan.json", "certificate.json", "model.safetensors"} < {*files}
        assert len(hub.stored) == 1, "weights go by LFS"
        back = run(["-c", LOAD, tmp_path / "found.pt"], tmp_path / "other", hub.url, TOKEN)
        assert back.returncode == 0, back.stderr
    with torch.no_grad():
        expected = load(out).model(torch.arange(5)[None]).last_hidden_state
    torch.testing.assert_close(torch.load(tmp_path / "found.pt"), expected)


@pytest.mark.slow
def test_prune_pushes_what_it_made(tmp_path: Path) -> None:
    """By one command, from a model and texts to the hub."""
    texts = tmp_path / "texts.txt"
    texts.write_text("The old dog sleeps.\nA cat sees the dog.\nThe cat runs.\nA dog barks.\n")
    task = ["--task", "masked-lm", *(f"--{name}={texts}" for name in ("data", "dev", "test"))]
    prune = ["-m", "headcount", "prune", saved.bert(tmp_path / "bert"), *task, "--keep", 4]
    with serving() as hub:
        more = ["--out", tmp_path / "out", "--push", "owner/pruned"]
        done = run([*prune, *more], tmp_path / "home", hub.url, TOKEN)
        assert done.returncode == 0, done.stderr
        assert f"Uploaded: {hub.url}/owner/pruned/commit/" in done.stdout
        files = hub.files["owner/pruned"]
        assert {"README.md", "plan.json", "prune.json", "certificate.json"} < {*files}
        assert files["README.md"] == (tmp_path / "out" / "README.md").read_bytes()


def test_what_is_not_pushed(tmp_path: Path) -> None:
    """A name that is none, and weights that are not those of the certificate."""
    with pytest.raises(InputError, match="Expected --push OWNER/NAME, got 'small'"):
        push(tmp_path, "small")
    (tmp_path / "model.safetensors").write_bytes(b"other")
    Certificate("plan", "weights", ()).write(tmp_path)
    with pytest.raises(InputError, match="Expected a certificate of the weights in "):
        push(tmp_path, "owner/small")
