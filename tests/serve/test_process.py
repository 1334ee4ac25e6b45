"""`headcount serve` as a process of its own, under load, half requests and signals."""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from headcount.serve import bind
from tests import saved
from tests.commanding import headcount
from tests.forked import Forked
from tests.serve.raw import ask, connect, request

HALF = request(b"{", "Authorization: Bearer x", length=100)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved.bert(tmp_path_factory.mktemp("bert"))


class Serving:
    """A running `headcount serve`."""

    def __init__(self, *arguments: object, open_files: int | None = None) -> None:
        self.process = Forked("headcount", "serve", *arguments, open_files=open_files)
        self.printed = self.process.until("Ctrl-C stops")
        found = re.search(r":(\d+)/\?token=([\w-]+)", self.printed)
        assert found is not None
        self.port, self.token = int(found[1]), found[2]

    def stop(self, number: signal.Signals) -> tuple[float, str, str]:
        """Send a signal: seconds until the end, stdout, stderr."""
        start = time.monotonic()
        self.process.send_signal(number)
        output, errors = self.process.communicate(timeout=20)
        return time.monotonic() - start, output, errors


@pytest.fixture
def serving(folder: Path) -> Iterator[Serving]:
    made = Serving(folder, "--port", 0)
    yield made
    if made.process.returncode is None:
        made.process.send_signal(signal.SIGKILL)


@pytest.mark.once
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_it_while_clients_ask_and_one_has_sent_half(
    serving: Serving, number: signal.Signals
) -> None:
    half = [connect(serving.port, sent) for sent in (b"", HALF[:20], HALF)]
    authorized = request(b"{", f"Authorization: Bearer {serving.token}", length=100)
    half.append(connect(serving.port, authorized))
    statuses: list[int] = []

    def client() -> None:
        try:
            while True:
                statuses.append(ask(serving.port, serving.token, text="The old dog barked.")[0])
        except (OSError, IndexError):  # refused, or cut off
            return

    clients = [Thread(target=client) for _ in range(4)]
    for each in clients:
        each.start()
    while len(statuses) < 8:
        time.sleep(0.01)
    seconds, output, errors = serving.stop(number)
    for each in clients:
        each.join()
    assert (output, errors, serving.process.returncode) == ("Stopped\n", "", 0)
    assert seconds < 5 and set(statuses) <= {200, 503}
    for each in half:
        each.close()


SLOW = """
import runpy, sys, time
from headcount.serve import LiveModel

def answer(self, question):
    print("asked", flush=True)
    time.sleep(60)

LiveModel.answer = answer
sys.argv[0] = "headcount"
runpy.run_module("headcount", run_name="__main__")
"""


@pytest.mark.slow
def test_it_stops_within_five_seconds_while_the_model_works(folder: Path) -> None:
    process = Forked("-c", SLOW, "serve", folder, "--port", 0)
    printed = process.until("Ctrl-C stops")
    port, token = re.findall(r":(\d+)/\?token=([\w-]+)", printed)[0]
    answers: list[tuple[int, dict[str, str]]] = []
    client = Thread(target=lambda: answers.append(ask(int(port), token, text="Dogs.")))
    client.start()
    process.until("asked")
    start = time.monotonic()
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=30)
    assert time.monotonic() - start < 5
    client.join()
    assert answers[0][0] == 503 and "was stopped" in answers[0][1]["error"]
    assert output.strip() == "Stopped" and process.returncode == 0 and "Traceback" not in errors


@pytest.mark.slow
def test_connections_that_never_ask_leave_room_for_one_that_does(folder: Path) -> None:
    serving = Serving(folder, "--port", 0, open_files=128)
    silent = []
    for _ in range(250):
        try:
            silent.append(connect(serving.port, HALF[:30], timeout=0.02))
        except OSError:  # as many wait to be accepted as may
            continue
    start = time.monotonic()
    status, _ = ask(serving.port, serving.token, text="The old dog barked.")
    assert status == 200 and time.monotonic() - start < 3
    _, output, errors = serving.stop(signal.SIGTERM)
    assert (output, errors) == ("Stopped\n", "")
    for each in silent:
        each.close()


@pytest.mark.slow
@pytest.mark.parametrize("host", ["0.0.0.0", "0", "::"])
def test_a_host_that_others_reach_says_so_and_prints_addresses_that_work(
    folder: Path, host: str
) -> None:
    serving = Serving(folder, "--port", 0, "--host", host)
    urls = re.findall(r"http://\S+", serving.printed)
    assert len(urls) in (1, 2) and not any(f"//{host}:" in url for url in urls)
    for url in urls:
        with urlopen(url) as page:
            assert page.status == 200
    assert "Every machine with the address, token included, can ask" in serving.printed
    serving.stop(signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("host", ["0.0.0.0", "0", "::", "::ffff:0.0.0.0", "own"])
def test_other_machines_can_ask_without_a_token_only_after_a_yes(folder: Path, host: str) -> None:
    if host == "own":
        everywhere = bind("0.0.0.0", 0)
        host = str(urlsplit(everywhere.urls[-1]).hostname)
        everywhere.socket.close()
        if host == "127.0.0.1":
            pytest.skip("this machine has no network")
    options = ("serve", folder, "--host", host, "--port", 0, "--no-token")
    status, _, errors = headcount(*options)
    assert status == 2 and f"other machines can reach --host {host}, got --no-token" in errors
    assert "--yes" in errors
    process = Forked("headcount", *options, "--yes")
    assert "Every machine that reaches it can ask" in process.until("Ctrl-C stops")
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[0].endswith("Stopped\n")


def test_a_client_that_leaves_is_no_error(serving: Serving) -> None:
    sent = request(b"{", f"Authorization: Bearer {serving.token}", length=100)
    for _ in range(3):
        connect(serving.port, sent).close()
    assert ask(serving.port, serving.token, text="The old dog barked.")[0] == 200
    _, output, errors = serving.stop(signal.SIGTERM)
    assert (output, errors) == ("Stopped\n", "")
