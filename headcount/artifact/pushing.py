"""Pushing: the folder of a pruned model on the hub, with card, plan and certificate.

huggingface_hub uploads it, with its own settings: where the hub is (`HF_ENDPOINT`), and who asks
(`hf auth login`). A new repository is private.
"""

import re
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

from headcount.artifact.making import PAGE
from headcount.artifact.staging import WRITTEN
from headcount.core import InputError, reason
from headcount.results import LAPSED, Certificate

LOCAL = (PAGE, WRITTEN, "*.lock", ".*")
"""What stays here: the page shows what the card does, and the hub needs no list of files."""


def check_repository(name: str) -> None:
    """Check the name of a repository.

    Raises:
        InputError: Unless it is an owner and a name.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise InputError(f"Expected --push OWNER/NAME, got {name!r}. Name a repository of the hub.")


def push(folder: str | Path, name: str) -> str:
    """Upload the folder of a pruned model in one commit, and return its address.

    Args:
        folder: Folder that holds a certificate of its weights.
        name: The repository, `owner/name`; a new one is private.

    Raises:
        InputError: If the folder has no certificate, or one of other weights, or if the hub refuses
            the upload; the message says why.
    """
    check_repository(name)
    folder = Path(folder)
    if not Certificate.read(folder).holds_for(folder):
        raise InputError(f"Expected a certificate of the weights in {folder}, but {LAPSED}.")
    try:
        hub = HfApi()
        hub.create_repo(name, private=True, exist_ok=True)
        found = hub.upload_folder(
            repo_id=name,
            folder_path=folder,
            commit_message="Upload a model pruned with headcount",
            ignore_patterns=[*LOCAL],
        )
    except (HfHubHTTPError, OfflineModeIsEnabled, OSError, ValueError) as error:
        raise InputError(
            f"Expected the hub to take {name}, but it does not: {reason(error)}. The folder "
            f"{folder} is complete. Log in with `hf auth login`, or unset HF_HUB_OFFLINE, and "
            f"push it by `headcount export {folder} --push {name}`."
        ) from error
    return str(found.commit_url)
