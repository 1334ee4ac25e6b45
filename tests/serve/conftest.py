"""A server of tiny models in a thread."""

from collections.abc import Callable, Iterator
from threading import Thread

import pytest
import uvicorn

from headcount.serve import LiveModel, bind, make_server
from tests.tasks.loaded import loaded


@pytest.fixture(scope="session")
def served() -> Iterator[Callable[..., str]]:
    """A function that serves a model and returns its address."""
    running: list[tuple[uvicorn.Server, Thread]] = []

    def start(live: LiveModel, has_token: bool = True) -> str:
        address = bind(port=0, has_token=has_token)
        server = make_server(live, address)
        thread = Thread(target=server.run, kwargs={"sockets": [address.socket]})
        thread.start()
        running.append((server, thread))
        return address.urls[0]

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def translator() -> LiveModel:
    """A tiny translator with a plan that prunes two heads."""
    return LiveModel(loaded("MarianMTModel"), ("enc.0.1", "cross.2.4"))


@pytest.fixture(scope="session")
def filler() -> LiveModel:
    """A tiny masked model with a finding."""
    return LiveModel(loaded("BertForMaskedLM"), None, {"enc.1.3": [("role", "looks <b>back</b>")]})
