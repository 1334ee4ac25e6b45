"""A hub on this machine: it speaks the protocol of uploads with LFS, and of downloads."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_ours"
COMMIT = "c0ffee" + "0" * 34


class Hub(ThreadingHTTPServer):
    """What was uploaded, by repository and by hash."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, dict[str, bytes]] = {}
        self.stored: dict[str, bytes] = {}
        self.commits: list[str] = []
        self.private: dict[str, bool] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving() -> Iterator[Hub]:
    """A hub that runs meanwhile."""
    with Hub() as hub:
        thread = threading.Thread(target=hub.serve_forever, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub  # type: ignore[assignment]

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        body, path = self._body(), unquote(urlsplit(self.path).path)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._json({"error": "Invalid username or password."}, 401)
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            self.server.files.setdefault(name, {})
            self.server.private[name] = asked.get("visibility") == "private"
            return self._json({"url": f"{self.server.url}/{name}", "name": name})
        if path == "/api/validate-yaml":
            return self._json({"errors": [], "warnings": []})
        if path == "/lfs/verify":
            asked = json.loads(body)
            known = len(self.server.stored[asked["oid"]]) == asked["size"]
            return self._json({}, 200 if known else 422)
        if path.endswith(".git/info/lfs/objects/batch"):
            return self._json({"transfer": "basic", "objects": self._actions(json.loads(body))})
        _, _, _, owner, name, doing, *_ = path.split("/")
        if doing == "preupload":
            files = [self._mode(each) for each in json.loads(body)["files"]]
            return self._json({"files": files})
        assert doing == "commit", path
        return self._commit(f"{owner}/{name}", body)

    def _actions(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        """Where each object is put, and where to ask whether it arrived."""
        places = {"upload": "/lfs/{}", "verify": "/lfs/verify"}
        return [
            each
            | {
                "actions": {
                    name: {"href": self.server.url + place.format(each["oid"])}
                    for name, place in places.items()
                }
            }
            for each in asked["objects"]
        ]

    def _mode(self, asked: dict[str, Any]) -> dict[str, Any]:
        is_large = asked["path"].endswith((".safetensors", ".onnx", ".data"))
        mode = "lfs" if is_large else "regular"
        return {"path": asked["path"], "uploadMode": mode, "shouldIgnore": False}

    def _commit(self, name: str, body: bytes) -> None:
        """The files of a commit, one a line."""
        for line in filter(None, body.splitlines()):
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header":
                self.server.commits.append(value["summary"])
            elif entry["key"] == "file":
                self.server.files[name][value["path"]] = base64.b64decode(value["content"])
            else:
                assert entry["key"] == "lfsFile" and value["algo"] == "sha256", entry
                self.server.files[name][value["path"]] = self.server.stored[value["oid"]]
        url = f"{self.server.url}/{name}/commit/{COMMIT}"
        self._json({"commitUrl": url, "commitOid": COMMIT, "success": True})

    def do_PUT(self) -> None:
        body, oid = self._body(), self.path.rpartition("/")[2]
        assert hashlib.sha256(body).hexdigest() == oid
        self.server.stored[oid] = body
        self._json({})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            name, files = "/".join(parts[2:4]), self.server.files.get("/".join(parts[2:4]))
            if files is None:
                return self._json({"error": "Repository not found"}, 404)
            if "tree" in parts:
                listed = [
                    {"type": "file", "path": path, "size": len(text), "oid": "0" * 40}
                    for path, text in files.items()
                ]
                return self._json(listed)
            siblings = [{"rfilename": each} for each in files]
            about = {"id": name, "sha": COMMIT, "siblings": siblings, "tags": []}
            return self._json(about)
        file = self.server.files.get("/".join(parts[:2]), {}).get("/".join(parts[4:]))
        if file is None:
            headers = {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}
            return self._send(b"", 404, headers)
        etag = hashlib.sha256(file).hexdigest()
        self._send(file, 200, {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT})

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _json(self, found: Any, status: int = 200) -> None:
        self._send(json.dumps(found).encode(), status, {"Content-Type": "application/json"})

    def _send(self, body: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
