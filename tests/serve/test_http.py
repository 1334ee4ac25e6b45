"""The server by HTTP: who may ask, what may be asked, and the sentence for everything else."""

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from headcount.core import InputError, Plan
from headcount.results import PruneRecord
from headcount.serve import LiveModel, bind, make_application, open_model
from headcount.serve.application import MAX_CONNECTIONS, MAX_WAITING
from headcount.serve.live_model import MAX_BODY, Question
from tests import saved
from tests.pages.run_folder import Wish, write_run
from tests.serve import raw

TOKEN = "secret"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
TEXT = "The old dog barked."


@pytest.fixture(scope="module")
def client(filler: LiveModel) -> TestClient:
    return TestClient(make_application(filler, TOKEN), base_url="http://127.0.0.1:8765")


def ask(client: TestClient, body: Any, headers: dict[str, str] = BEARER) -> tuple[int, str]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = client.post("/look", content=content, headers=headers | {"X-Headcount": "1"})
    return response.status_code, response.json().get("error", "")


def test_the_page_needs_the_token(client: TestClient) -> None:
    page = client.get("/", params={"token": TOKEN})
    assert page.status_code == 200 and "connect-src 'self'" in page.text
    assert page.headers["x-frame-options"] == "DENY"
    assert "looks \\u003cb" in page.text and TOKEN not in page.text
    for params in ({}, {"token": "other"}, {"token": "sécret"}):
        refused = client.get("/", params=params)
        assert refused.status_code == 403 and "token" in refused.text


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer x"}, {"Cookie": f"token={TOKEN}"}]
)
def test_questions_need_the_token(client: TestClient, headers: dict[str, str]) -> None:
    status, error = ask(client, {"text": TEXT}, headers)
    assert status == 403 and error.startswith("Expected the address with the token")


OTHER_HOSTS = (
    *("evil.example", "evil.example:8765", "127.0.0.1.evil.example", "10.0.0.1"),
    *("evil{x", "", " ", "evil@127.0.0.1", "127.0.0.1:port", "127.0.0.1:", "[::1", "::1"),
    *("127.0.0.1/", "127.0.0.1#", "127.0.0.1, evil.example", "http://127.0.0.1", "b\xfcse"),
)


@pytest.mark.parametrize("host", [*OTHER_HOSTS, None])
@pytest.mark.parametrize("path", ["GET / HTTP/1.1", "POST /look HTTP/1.1", "GET /x HTTP/1.0"])
def test_other_hosts_are_refused(open_port: int, host: str | None, path: str) -> None:
    sent = raw.request(b"", "X-Headcount: 1", host=host, line=path)
    status, body = raw.response(raw.connect(open_port, sent))
    # h11 refuses some of them before the guard sees them
    assert status == 421 or (status, body) == (400, b"Invalid HTTP request received.")
    assert status == 400 or body.startswith(b"Expected the address that headcount serve printed")


@pytest.mark.parametrize("host", ["127.0.0.1", "LocalHost:1", "[::1]:8765"])
def test_own_hosts_are_answered(open_port: int, host: str) -> None:
    sent = raw.request(b'{"text": "Dogs."}', "X-Headcount: 1", host=host)
    assert raw.response(raw.connect(open_port, sent))[0] == 200


def test_without_a_token_only_the_page_can_ask(open_port: int) -> None:
    """A page of another server can send this form, but no header of its own."""
    blind = raw.request(b'{"text": "Dogs."}', "Content-Type: text/plain", "Origin: http://evil")
    status, body = raw.response(raw.connect(open_port, blind))
    assert status == 403 and "Expected the header X-Headcount" in json.loads(body)["error"]
    asked = raw.request(
        b"", "Access-Control-Request-Headers: x-headcount", line="OPTIONS /look HTTP/1.1"
    )
    with raw.connect(open_port, asked) as connection:
        assert b"access-control" not in connection.recv(1 << 16).lower()


@pytest.mark.parametrize(
    ("line", "status"), [("GET /look", 405), ("GET /x", 404), ("POST /look/", 404)]
)
def test_other_requests_get_a_sentence(open_port: int, line: str, status: int) -> None:
    found, body = raw.response(raw.connect(open_port, raw.request(b"", line=f"{line} HTTP/1.1")))
    assert (found, json.loads(body)["error"]) == (
        status,
        f"Expected GET / or POST /look or /effects, got {line}.",
    )


def test_an_error_that_nobody_foresaw_gets_a_sentence(
    filler: LiveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise IndexError("index out of range in self")

    monkeypatch.setattr(LiveModel, "answer", fail)
    application = make_application(filler, TOKEN)
    with TestClient(
        application, base_url="http://localhost", raise_server_exceptions=False
    ) as client:
        status, error = ask(client, {"text": TEXT})
    assert status == 500 and "it failed (IndexError: index out of range in self)" in error


@pytest.mark.slow
def test_a_late_request_is_cut_off(
    served: Callable[[LiveModel, bool], str], filler: LiveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headcount.serve.application.SECONDS", 1.2)
    port = port_of(served(filler, False))
    half = raw.request(b"{", "X-Headcount: 1", length=100)
    answered = raw.request(b'{"text": "Dogs."}', "X-Headcount: 1")
    for sent in (b"", half[:20], half, raw.request(b"{", length=100)):
        start = time.monotonic()
        with raw.connect(port, sent) as connection:
            while connection.recv(1 << 16):  # what was refused early gets its answer first
                pass
        assert 1 < time.monotonic() - start < 4
    with raw.connect(port) as connection:
        for _ in range(4):  # a connection that is used stays
            connection.sendall(answered)
            assert connection.recv(12) == b"HTTP/1.1 200"
            while b'"seconds"' not in connection.recv(1 << 16):
                pass
            time.sleep(0.4)  # in all longer than a request may take


@pytest.mark.slow
def test_more_connections_end_those_that_waited_longest(
    served: Callable[[LiveModel, bool], str], filler: LiveModel
) -> None:
    port = port_of(served(filler, False))
    waiting = [raw.connect(port) for _ in range(MAX_CONNECTIONS + 3)]
    assert raw.ask(port, None, text="Dogs.")[0] == 200
    for number, connection in enumerate(waiting):
        connection.settimeout(0.05 if number > 3 else 5)
        try:
            ended = connection.recv(1) == b""
        except ConnectionResetError:
            ended = True
        except TimeoutError:
            ended = False
        assert ended == (number <= 3), number
        connection.close()


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


@pytest.fixture(scope="module")
def open_port(served: Callable[[LiveModel, bool], str], filler: LiveModel) -> int:
    """The port of a server without a token."""
    return port_of(served(filler, False))


def test_an_open_server_takes_addresses_but_no_names(filler: LiveModel) -> None:
    application = make_application(filler, TOKEN, {"0.0.0.0"})
    client = TestClient(application, base_url="http://10.0.0.1")
    assert client.get("/", params={"token": TOKEN}).status_code == 200
    other = client.get("/", params={"token": TOKEN}, headers={"Host": "evil.example"})
    assert other.status_code == 421


def test_an_answer(client: TestClient) -> None:
    response = client.post("/look", json={"text": TEXT, "gates": {"enc.0.0": 0.5}}, headers=BEARER)
    assert response.status_code == 200
    (site,) = response.json()["attention"]["sites"]
    assert site["queries"][1:3] == ["The", "old"] and len(site["maps"]["0"]) == 5


def test_effects(client: TestClient) -> None:
    asked = {"text": "The old [MASK] barked.", "target": "dog", "against": "children"}
    response = client.post("/effects", json=asked, headers=BEARER)
    assert response.status_code == 200 and len(response.json()["effects"]) == 10
    for name, value, says in [
        ("target", None, "Expected a target, such as"),
        ("target", 3, "Expected a text as the target, got 3"),
        ("target", "dog", "rival"),
        ("text", "The dog.", "Expected a prompt with one [MASK]"),
        ("text", "dog " * 300 + "[MASK]", "at most"),
    ]:
        other = asked | {"against": "dog"} if value == "dog" else asked
        refused = client.post("/effects", json=other | {name: value}, headers=BEARER)
        assert refused.status_code == 400 and says.lower() in refused.json()["error"].lower()


REFUSED: dict[str, tuple[Any, str]] = {
    "no JSON": (b"{", "Expected a request in JSON"),
    "no UTF-8": (b"\xff\xfe", "Expected a request in JSON"),
    "deep": (b"[" * 30000, "Expected a request in JSON"),
    "a list": ([1], "Expected a request such as"),
    "no text": ({"text": 3}, "Expected a request such as"),
    "an empty text": ({"text": " \n"}, "Expected a sentence of at least one word"),
    "10,000 characters": ({"text": "a" * 10_000}, "at most 2,000 characters, got 10,000"),
    "only masks": ({"text": "[MASK] " * 200}, "Expected a sentence"),
    "masks and a word": ({"text": "dog " + "[MASK] " * 200}, "at most 64 tokens, got"),
    "half a character": (b'{"text": "dog", "second": "\\udc00"}', "Expected whole characters"),
    "400 digits as gate": (
        b'{"text": "a", "gates": {"enc.0.0": ' + b"9" * 400 + b"}}",
        "between 0 and 2 as the gate of enc.0.0, got 9999",
    ),
    "5,000 digits as gate": (
        b'{"text": "a", "gates": {"enc.0.0": ' + b"9" * 5000 + b"}}",
        "Expected a request in JSON",
    ),
    "minus 400 digits": (
        b'{"text": "a", "gates": {"enc.0.0": -' + b"9" * 400 + b"}}",
        "between 0 and 2",
    ),
    "many tokens": ({"text": "dog " * 100}, "at most 64 tokens, got"),
    "a number as second": ({"text": TEXT, "second": 1}, "a text as the second sentence, got 1"),
    "a list of gates": ({"text": TEXT, "gates": [1]}, "Expected gates by head name"),
    "an unknown head": ({"text": TEXT, "gates": {"enc.7.0": 0}}, "Expected a head of this model"),
    "no head": ({"text": TEXT, "gates": {"<b>": 0}}, "Expected a head such as"),
    "a word as gate": ({"text": TEXT, "gates": {"enc.0.0": "off"}}, "between 0 and 2 as the gate"),
    "a truth as gate": ({"text": TEXT, "gates": {"enc.0.0": True}}, "between 0 and 2 as the gate"),
    "infinity": (b'{"text": "a", "gates": {"enc.0.0": Infinity}}', "between 0 and 2"),
    "NaN": (b'{"text": "a", "gates": {"enc.0.0": NaN}}', "between 0 and 2"),
    "a negative gate": ({"text": TEXT, "gates": {"enc.0.0": -1}}, "got -1"),
    "a long gate": ({"text": TEXT, "gates": {"enc.0.0": "x" * 99}}, "…"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_questions_get_a_sentence(client: TestClient, name: str) -> None:
    body, says = REFUSED[name]
    status, error = ask(client, body)
    assert status == 400 and says in error and error[0].isupper() and len(error) < 300


def test_a_large_body_is_not_read(client: TestClient) -> None:
    status, error = ask(client, b"x" * (MAX_BODY + 1))
    assert status == 413 and "at most 65,536 bytes" in error


HOSTILE = ["</script><script>alert(1)</script>", "\u202e\u0000\ufffe", "🙂" * 20, "a\u0301" * 30]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_sentences_are_answered(client: TestClient, text: str) -> None:
    assert ask(client, {"text": text})[0] == 200


def test_half_a_surrogate_is_answered_or_gets_a_sentence(client: TestClient) -> None:
    status, error = ask(client, b'{"text": "\\ud83d dog"}')
    assert status == 400 and error.startswith("Expected")


def test_one_question_runs_at_a_time_and_too_many_are_refused(
    filler: LiveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, running, seen = Event(), list[int](), list[int]()

    def slow(self: LiveModel, question: object) -> dict[str, Any]:
        running.append(1)
        seen.append(len(running))
        go.wait(10)
        running.pop()
        return {}

    monkeypatch.setattr(LiveModel, "answer", slow)
    statuses: list[int] = []
    with TestClient(make_application(filler), base_url="http://localhost") as client:

        def post() -> None:
            statuses.append(ask(client, {"text": TEXT})[0])
            if statuses.count(503) == 3:
                go.set()

        threads = [Thread(target=post) for _ in range(MAX_WAITING + 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(statuses) == [200] * MAX_WAITING + [503] * 3 and set(seen) == {1}


@pytest.mark.slow
def test_questions_of_clients_that_left_are_neither_counted_nor_answered(
    served: Callable[..., str], filler: LiveModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of tabs that are closed while they wait."""
    go, asked, answer = Event(), list[str](), LiveModel.answer

    def slow(self: LiveModel, question: Question) -> dict[str, Any]:
        asked.append(question.text)
        go.wait(20)
        return answer(self, question)

    monkeypatch.setattr(LiveModel, "answer", slow)
    port = urlsplit(served(filler, has_token=False)).port
    assert port is not None
    questions = [f"Dog {number}." for number in range(MAX_WAITING)]
    left = [
        raw.connect(port, raw.request(json.dumps({"text": text}).encode(), "X-Headcount: 1"))
        for text in questions
    ]
    limit = time.monotonic() + 20
    while not asked and time.monotonic() < limit:
        time.sleep(0.01)
    time.sleep(0.3)  # until the others wait, too
    for connection in left:
        connection.close()
    answers = list[tuple[int, Any]]()
    asking = Thread(target=lambda: answers.append(raw.ask(port, None, text="Dogs.")))
    time.sleep(0.3)
    asking.start()
    time.sleep(0.3)
    go.set()
    asking.join()
    assert answers[0][0] == 200, answers
    assert len(asked) == 2 and asked[1] == "Dogs."


def test_a_port_in_use_gets_a_sentence() -> None:
    address = bind(port=0)
    assert address.token is not None
    assert address.urls == (f"http://127.0.0.1:{address.port}/?token={address.token}",)
    with pytest.raises(InputError, match=rf"127.0.0.1 port {address.port} can't be used"):
        bind(port=address.port)
    address.socket.close()
    for host, port in (("no such host", 0), ("127.0.0.1", 70000), ("203.0.113.1", 0)):
        with pytest.raises(InputError, match="Expected a"):
            bind(host, port)


def test_it_listens_on_this_machine_only_by_default() -> None:
    address = bind(port=0)
    assert address.socket.getsockname()[0] == "127.0.0.1"
    assert address.socket.family == socket.AF_INET and address.is_local
    address.socket.close()


@pytest.mark.slow
def test_opening_a_model_with_a_plan(tmp_path: Path) -> None:
    folder = saved.bert(tmp_path / "bert")
    live = open_model(str(folder))
    assert live.pruned is None and live.kind == "masked-lm"
    heads = live.loaded.heads
    Plan.keeping(heads, list(heads)[:4]).write(tmp_path / "plan.json")
    found = open_model(str(folder), plan=tmp_path)
    assert found.pruned == ("enc.1.1", "enc.1.2")
    Plan({"decoder.self": {0: (1,)}}).write(tmp_path / "plan.json")
    with pytest.raises(InputError, match="Expected a plan for this model"):
        open_model(str(folder), plan=tmp_path / "plan.json")


def test_opening_a_pruned_model_opens_the_dense_one(tmp_path: Path) -> None:
    folder = saved.bert(tmp_path / "bert")
    heads = open_model(str(folder)).loaded.heads
    pruned = tmp_path / "pruned"
    pruned.mkdir()
    Plan.keeping(heads, list(heads)[1:]).write(pruned / "plan.json")
    names = tuple(map(str, heads))
    lost = PruneRecord(model="lost", heads=heads.counts, kept=names[1:], pruned=names[:1])
    lost.write(pruned)
    assert open_model(str(pruned), model=str(folder)).pruned == ("enc.0.0",)
    with pytest.raises(InputError, match="names its model as lost.*--model"):
        open_model(str(pruned))


@pytest.mark.slow
def test_opening_a_run_shows_what_heads_do(tmp_path: Path) -> None:
    folder = saved.bert(tmp_path / "bert")
    run = write_run(tmp_path / "run", Wish(layers=2, heads=3, profiles=True))
    live = open_model(str(run), model=str(folder))
    assert set(live.findings) == set(map(str, live.loaded.heads))
    assert any(found for found in live.findings.values())
    other = write_run(tmp_path / "other", Wish(layers=3, heads=3))
    with pytest.raises(InputError, match="Expected the model of the run other"):
        open_model(str(other), model=str(folder))
