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

from mngr.kinds.mechanic.program import block_runs, generated_tests, repair
from mngr.kinds.player import player

_JOB_FENCE = re.compile(r"^```mngr-job\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EMPTY_SCENARIO = {"steps": [], "start": "message", "lose_enters": 0}
T = TypeVar("T")


class Mechanic(player.Player):
    """Reads messages as a player does; one with a job in it is worked off, from its beginning again after a stop."""

    def __init__(self, book: player.PlayerFiles, work: str) -> None:
        super().__init__(book, dict(_EMPTY_SCENARIO), work)
        self._in_block = False

    def _select_remembered(self, text: str) -> str:
        return text

    def _listen_for_signals(self) -> None:
        super()._listen_for_signals()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: object) -> None:
        """A block may take longer than we are given to end, and it ends only with us."""
        self.signal = number
        if self._in_block:
            self._in_block = False
            raise player.PlayerExit(128 + number)

    def _build_block_runner(self, job: dict[str, Any]) -> block_runs.BlockRunner:
        path = block_runs.build_search_path(os.path.join(self.work, job.get("place") or ""))
        timeout = float(job.get("timeout") or block_runs.BLOCK_TIMEOUT)
        return block_runs.BlockRunner(job["shell"], path, timeout, lambda: self._read_input(0))

    def _process_block(
        self,
        block: block_runs.JobBlock,
        what: Callable[[block_runs.JobBlock, block_runs.BlockRunner], T],
        bench: block_runs.BlockRunner,
    ) -> T:
        """Have something done with a block."""
        self._show(f"* {block.slug}\n")
        self._in_block = True
        try:
            return what(block, bench)
        finally:
            self._in_block = False

    def _play_turn(self) -> None:
        self.book.write_status("RUNNING", None)
        self.book.append_event("turn_start", step=0)
        try:
            self._record_reply(self._run_job(self.at["current"] or ""))
        except (ValueError, KeyError, TypeError, OSError) as error:
            self._record_reply(f"I could not do that: {type(error).__name__}: {error}")
        self._save_progress(next=0, turn=False, reason="end_of_turn")
        self.book.append_event("turn_end", reason="end_of_turn")
        self._report_waiting()

    def _run_job(self, text: str) -> str:
        found = _JOB_FENCE.search(text)
        if found is None:
            return "I do jobs, and there is none in this message. `mngr tutorial sync --agent mechanic` writes one."
        job = json.loads(found[1])
        known = {"observe": self._write_tests, "try": self._try_blocks, "repair": self._repair_test}
        if job.get("job") not in known:
            return f"I know no job {job.get('job')!r}."
        return known[job["job"]](job)

    def _try_blocks(self, job: dict[str, Any]) -> str:
        """Run each block once, after what it needs; what became of it, as JSON."""
        rows = []
        bench = self._build_block_runner(job)
        for block in _parse_blocks(job):
            ok, outcome = self._process_block(block, block_runs.try_block, bench)
            rows.append({"id": block.id, "ok": ok, "outcome": outcome})
        return json.dumps(rows)

    def _repair_test(self, job: dict[str, Any]) -> str:
        """Mend one test; what became of it."""
        outputs = os.environ.get("MNGR_OUTPUT_DIR") or os.path.join(self.work, ".mngr", "outputs")
        done = repair.repair_tests(job, self.work, outputs, lambda: self._read_input(0))
        return f"{job['test']}: {done['outcome']}.\n{done['summary']}"

    def _write_tests(self, job: dict[str, Any]) -> str:
        """Write a test for every block that does the same each time; what became of each."""
        target = os.path.join(job.get("place") or "", job["tests"], "test_observed.py")
        old = self._read_committed(target)
        seen: list[block_runs.ObservedBlock] = []
        rows: list[str] = []
        failing: set[str] = set()
        bench = self._build_block_runner(job)
        for block in _parse_blocks(job):
            if generated_tests.has_citation(old, block):  # we were stopped after that
                rows.append(f"- {block.slug}: has a test already")
                continue
            found = self._process_block(block.exclude_setup(failing), block_runs.observe_block, bench)
            if isinstance(found, block_runs.ObservedBlock):
                seen.append(found)
                rows.append(f"- {block.slug}: seen {block_runs.RUN_COUNT} times")
            else:
                failing.add(block.text)
                rows.append(f"- {block.slug}: no test, for {found.reason}")
                self._record_tool_call(
                    "observe",
                    {"path": f"{job['file']}:{block.line}", "block": block.id},
                    f"failed: {found.reason}",
                )
        if not seen:
            return "\n".join(["I could make no test." if not old else "There is nothing to add.", *rows])
        taken = set(re.findall(r"^def (test_\w+)", old, re.MULTILINE))
        text = generated_tests.write_test_module(job["file"], seen, taken)
        if old:  # what stands there stays
            text = old.rstrip("\n") + "\n" + text.partition(generated_tests.IMPORTS)[2]
        self._record_tool_call("write", {"path": target}, self._write_file({"path": target, "content": text}))
        said = f"[ADD_TEST] Observe {len(seen)} {'block' if len(seen) == 1 else 'blocks'} of {job['file']}"
        self._record_tool_call("commit", {"message": said}, self._commit(said, target))
        return "\n".join([f"{len(seen)} of {len(job['blocks'])} blocks have a test now, in {target}.", *rows])

    def _read_committed(self, target: str) -> str:
        """A file as it was committed last; what was only begun to be written is written anew."""
        argv = ["git", "show", f"HEAD:./{target}"]
        done = subprocess.run(argv, cwd=self.work, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def _parse_blocks(job: dict[str, Any]) -> list[block_runs.JobBlock]:
    """Those that the job is about, each with what comes before it in the script."""
    found = []
    for row in job["blocks"]:
        before = [(one["section"], one["text"]) for one in job["script"] if one["line"] < row["line"]]
        found.append(block_runs.JobBlock(row["id"], row["slug"], row["line"], row["text"], row["section"], before))
    return found


def main() -> int:
    """Work in this terminal; the exit code."""
    return player.run_player(Mechanic)


if __name__ == "__main__":
    sys.exit(main())
