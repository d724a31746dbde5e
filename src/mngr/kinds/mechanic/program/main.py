"""Takes jobs as messages in its terminal and does them: what a scripted agent does, with work instead of a script."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from mngr.kinds.mechanic.program import observe, repair, writing
from mngr.kinds.player import player

_JOB = re.compile(r"^```mngr-job\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SCENARIO = {"steps": [], "start": "message", "lose_enters": 0}
T = TypeVar("T")


class Mechanic(player.Player):
    """Reads messages as a player does; one with a job in it is worked off, from its beginning again after a stop."""

    def __init__(self, book: player.Book, work: str) -> None:
        super().__init__(book, dict(_SCENARIO), work)
        self._in_block = False

    def _kept(self, text: str) -> str:
        return text

    def _listen_for_signals(self) -> None:
        super()._listen_for_signals()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._told)

    def _told(self, number: int, _: object) -> None:
        """A block may take longer than we are given to end, and it ends only with us."""
        self.signal = number
        if self._in_block:
            self._in_block = False
            raise player.Ended(128 + number)

    def _bench(self, job: dict[str, Any]) -> observe.Bench:
        path = observe.search_path(os.path.join(self.work, job.get("place") or ""))
        timeout = float(job.get("timeout") or observe.TIMEOUT)
        return observe.Bench(job["shell"], path, timeout, lambda: self._pump(0))

    def _with(
        self, block: observe.Block, what: Callable[[observe.Block, observe.Bench], T], bench: observe.Bench
    ) -> T:
        """Have something done with a block."""
        self._show(f"* {block.slug}\n")
        self._in_block = True
        try:
            return what(block, bench)
        finally:
            self._in_block = False

    def _turn(self) -> None:
        self.book.status("RUNNING", None)
        self.book.event("turn_start", step=0)
        try:
            self._reply(self._work(self.at["current"] or ""))
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
        known = {"observe": self._observe, "try": self._try, "repair": self._repair}
        if job.get("job") not in known:
            return f"I know no job {job.get('job')!r}."
        return known[job["job"]](job)

    def _try(self, job: dict[str, Any]) -> str:
        """Run each block once, after what it needs; what became of it, as JSON."""
        rows = []
        bench = self._bench(job)
        for block in _blocks(job):
            ok, outcome = self._with(block, observe.attempt, bench)
            rows.append({"id": block.id, "ok": ok, "outcome": outcome})
        return json.dumps(rows)

    def _repair(self, job: dict[str, Any]) -> str:
        """Mend one test; what became of it."""
        outputs = os.environ.get("MNGR_OUTPUT_DIR") or os.path.join(self.work, ".mngr", "outputs")
        done = repair.repair(job, self.work, outputs, lambda: self._pump(0))
        return f"{job['test']}: {done['outcome']}.\n{done['summary']}"

    def _observe(self, job: dict[str, Any]) -> str:
        """Write a test for every block that does the same each time; what became of each."""
        target = os.path.join(job.get("place") or "", job["tests"], "test_observed.py")
        old = self._committed(target)
        seen: list[observe.Seen] = []
        rows: list[str] = []
        failing: set[str] = set()
        bench = self._bench(job)
        for block in _blocks(job):
            if writing.cites(old, block):  # we were stopped after that
                rows.append(f"- {block.slug}: has a test already")
                continue
            found = self._with(block.without(failing), observe.observe, bench)
            if isinstance(found, observe.Seen):
                seen.append(found)
                rows.append(f"- {block.slug}: seen {observe.TIMES} times")
            else:
                failing.add(block.text)
                rows.append(f"- {block.slug}: no test, for {found.why}")
                self._tool(
                    "observe",
                    {"path": f"{job['file']}:{block.line}", "block": block.id},
                    f"failed: {found.why}",
                )
        if not seen:
            return "\n".join(["I could make no test." if not old else "There is nothing to add.", *rows])
        taken = set(re.findall(r"^def (test_\w+)", old, re.MULTILINE))
        text = writing.module(job["file"], seen, taken)
        if old:  # what stands there stays
            text = old.rstrip("\n") + "\n" + text.partition(writing.IMPORTS)[2]
        self._tool("write", {"path": target}, self._write_file({"path": target, "content": text}))
        said = f"[ADD_TEST] Observe {len(seen)} {'block' if len(seen) == 1 else 'blocks'} of {job['file']}"
        self._tool("commit", {"message": said}, self._commit(said, target))
        return "\n".join([f"{len(seen)} of {len(job['blocks'])} blocks have a test now, in {target}.", *rows])

    def _committed(self, target: str) -> str:
        """A file as it was committed last; what was only begun to be written is written anew."""
        argv = ["git", "show", f"HEAD:./{target}"]
        done = subprocess.run(argv, cwd=self.work, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def _blocks(job: dict[str, Any]) -> list[observe.Block]:
    """Those that the job is about, each with what comes before it in the script."""
    found = []
    for row in job["blocks"]:
        before = [(one["section"], one["text"]) for one in job["script"] if one["line"] < row["line"]]
        found.append(observe.Block(row["id"], row["slug"], row["line"], row["text"], row["section"], before))
    return found


def main() -> int:
    """Work in this terminal; the exit code."""
    return player.play(Mechanic)


if __name__ == "__main__":
    sys.exit(main())
