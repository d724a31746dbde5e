"""Takes jobs as messages in its terminal and does them: what a scripted agent does, with work instead of a script."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

from mngr.mechanic import observe, writing
from mngr.onhost import player

_JOB = re.compile(r"^```mngr-job\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SCENARIO = {"steps": [], "start": "message", "lose_enters": 0}


class Mechanic(player.Player):
    """Reads messages as a player does; one with a job in it is worked off."""

    def __init__(self, book: player.Book, work: str) -> None:
        super().__init__(book, dict(_SCENARIO), work)
        self._jobs: list[str] = []

    def _receive(self, text: str) -> None:
        self._jobs.append(text)
        super()._receive(text)

    def _turn(self) -> None:
        self.book.status("RUNNING", None)
        self.book.event("turn_start", step=0)
        text = self._jobs.pop(0) if self._jobs else ""
        try:
            self._reply(self._work(text))
        except (ValueError, KeyError, TypeError, OSError) as error:
            self._reply(f"I could not do that: {type(error).__name__}: {error}")
        self._save(next=0, turn=False, reason="end_of_turn")
        self.book.event("turn_end", reason="end_of_turn")
        self._settle()

    def _work(self, text: str) -> str:
        found = _JOB.search(text)
        if found is None:
            return "I do jobs, and there is none in this message. `mngr tutorial sync --agent mechanic` writes one."
        job = json.loads(found[1])
        known = {"observe": self._observe, "try": self._try}
        if job.get("job") not in known:
            return f"I know no job {job.get('job')!r}."
        return known[job["job"]](job)

    def _try(self, job: dict[str, Any]) -> str:
        """Run each block once, after what it needs; what became of it, as JSON."""
        path = observe.search_path(self.work)
        rows = []
        for block in _blocks(job):
            self._show(f"* {block.slug}\n")
            ok, outcome = observe.attempt(block, job["shell"], path, lambda: self._pump(0))
            rows.append({"id": block.id, "ok": ok, "outcome": outcome})
        return json.dumps(rows)

    def _observe(self, job: dict[str, Any]) -> str:
        """Write a test for every block that does the same each time; what became of each."""
        path = observe.search_path(self.work)
        seen: list[observe.Seen] = []
        rows: list[str] = []
        for block in _blocks(job):
            self._show(f"* {block.slug}\n")
            found = observe.observe(block, job["shell"], path, lambda: self._pump(0))
            if isinstance(found, observe.Seen):
                seen.append(found)
                rows.append(f"- {block.slug}: seen {observe.TIMES} times")
            else:
                rows.append(f"- {block.slug}: no test, for {found.why}")
                self._tool("observe", {"path": block.slug}, f"failed: {found.why}")
        if not seen:
            return "\n".join(["I could make no test.", *rows])
        target = os.path.join(job["tests"], "test_observed.py")
        taken = set(re.findall(r"^def (test_\w+)", self._old(target), re.MULTILINE))
        text = writing.module(job["file"], seen, taken)
        old = self._old(target)
        if old:  # what stands there stays
            text = old.rstrip("\n") + "\n" + text.partition(writing.IMPORTS)[2]
        self._tool("write", {"path": target}, self._write_file({"path": target, "content": text}))
        said = f"[ADD_TEST] Observe {len(seen)} {'block' if len(seen) == 1 else 'blocks'} of {job['file']}"
        self._tool("commit", {"message": said}, self._commit(said))
        return "\n".join([f"{len(seen)} of {len(job['blocks'])} blocks have a test now, in {target}.", *rows])

    def _old(self, target: str) -> str:
        try:
            with open(os.path.join(self.work, target), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""


def _blocks(job: dict[str, Any]) -> list[observe.Block]:
    """Those that the job is about, each with what comes before it in the script."""
    found = []
    for row in job["blocks"]:
        before = [(one["section"], one["text"]) for one in job["script"] if one["line"] < row["line"]]
        found.append(observe.Block(row["id"], row["slug"], row["text"], row["section"], before))
    return found


def main() -> int:
    """Work in this terminal; the exit code."""
    return player.play(Mechanic)


if __name__ == "__main__":
    sys.exit(main())
