"""A fake GitHub for the real `gh`: GraphQL on a unix socket, limited to pull requests of one repository."""

from __future__ import annotations

import json
import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

HOST = "forge.invalid"
TOKEN = "a-token-for-" + HOST
REPO = {
    "id": "R1", "name": "r", "owner": {"login": "o"}, "hasIssuesEnabled": True, "viewerPermission": "WRITE",
    "defaultBranchRef": {"name": "main"}, "parent": None, "mergeCommitAllowed": True,
}  # fmt: skip


class GitHub:
    """The pull requests of the fake GitHub, and the names of all requests."""

    def __init__(self, dir: Path) -> None:
        self.socket = dir / "github.sock"
        self.pulls: list[dict[str, Any]] = []
        self.asked: list[str] = []
        config = dir / "gh"
        config.mkdir()
        (config / "config.yml").write_text(f"http_unix_socket: {self.socket}\nprompt: disabled\n")
        self.env = {
            "GH_CONFIG_DIR": str(config),
            "GH_HOST": HOST,
            "GH_ENTERPRISE_TOKEN": TOKEN,
            "GH_NO_UPDATE_NOTIFIER": "1",
        }

    def answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request. A request that is not modelled gets an error with its name."""
        name = (re.search(r"\b(?:query|mutation)\s+(\w+)", query) or ["", query[:80]])[1]
        self.asked.append(name)
        if name in ("RepositoryInfo", "RepositoryNetwork"):
            return {"data": {"repository": REPO, "repo_000": REPO, "viewer": {"login": "me"}}}
        if name == "PullRequestForBranch":
            nodes = [row for row in self.pulls if row["headRefName"] == variables["headRefName"]]
            return {"data": {"repository": {"pullRequests": {"nodes": nodes}, "defaultBranchRef": {"name": "main"}}}}
        if name == "PullRequestCreate":
            return self._create(variables["input"])
        if name == "PullRequestUpdate":
            (pull,) = [row for row in self.pulls if row["id"] == variables["input"]["pullRequestId"]]
            pull |= {key: value for key, value in variables["input"].items() if key in ("title", "body")}
            return {"data": {"updatePullRequest": {"__typename": "UpdatePullRequestPayload"}}}
        if name == "PullRequestProjectItems":
            items = {"pageInfo": {"hasNextPage": False, "endCursor": ""}, "nodes": []}
            return {"data": {"repository": {"pullRequest": {"projectItems": items}}}}
        return {"errors": [{"message": f"{name} is not modelled"}]}

    def _create(self, row: dict[str, Any]) -> dict[str, Any]:
        if any(pull["headRefName"] == row["headRefName"] for pull in self.pulls):
            return {"errors": [{"message": f"A pull request already exists for o:{row['headRefName']}."}]}
        number = len(self.pulls) + 1
        pull = {
            "id": f"P{number}", "number": number, "url": f"https://{HOST}/o/r/pull/{number}", "title": row["title"], "body": row["body"],
            "isDraft": row["draft"], "headRefName": row["headRefName"], "baseRefName": row["baseRefName"], "state": "OPEN",
            "isCrossRepository": False, "headRepositoryOwner": {"login": "o"},
        }  # fmt: skip
        self.pulls.append(pull)
        return {"data": {"createPullRequest": {"pullRequest": {"id": pull["id"], "url": pull["url"]}}}}


@contextmanager
def github(dir: Path) -> Iterator[GitHub]:
    """Run a fake GitHub during the block."""
    hub = GitHub(dir)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            is_known = self.headers["Authorization"] == f"token {TOKEN}"
            reply = hub.answer(request["query"], request["variables"]) if is_known else {"message": "Bad credentials"}
            data = json.dumps(reply).encode()
            self.send_response(200 if is_known else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

        def get_request(self) -> tuple[Any, Any]:
            return super().get_request()[0], ("gh", 0)

    with Server(str(hub.socket), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield hub
        server.shutdown()
