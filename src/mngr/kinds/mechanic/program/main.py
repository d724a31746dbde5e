"""Receives jobs as messages in its terminal and does them. It extends the scripted agent with real work."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from mngr.kinds.mechanic.program import generated_tests, repair, stable_block_output
from mngr.kinds.player import player

_JOB_FENCE = re.compile(r"^```mngr-job\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EMPTY_SCENARIO = {"steps": [], "start": "message", "lose_enters": 0}
T = TypeVar("T")


class Mechanic(player.Player):
    """Reads messages as a player does, and does the job in a message. After a stop it starts the job again."""

    def __init__(self, files: player.PlayerFiles, work_dir: str) -> None:
        super().__init__(files, dict(_EMPTY_SCENARIO), work_dir)
        self._in_block = False

    def _select_remembered(self, text: str) -> str:
        return text

    def _listen_for_signals(self) -> None:
        super()._listen_for_signals()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: object) -> None:
        """Leave at once while a block runs: the block may take longer than the time that mngr allows for a stop."""
        self.signal = number
        if self._in_block:
            self._in_block = False
            raise player.PlayerExit(128 + number)

    def _build_block_runner(self, job: dict[str, Any]) -> stable_block_output.BlockRunner:
        path = stable_block_output.build_search_path(os.path.join(self.work, job.get("place") or ""))
        timeout = float(job.get("timeout") or stable_block_output.BLOCK_TIMEOUT)
        return stable_block_output.BlockRunner(job["shell"], path, timeout, lambda: self._read_input(0))

    def _process_block(
        self,
        block: stable_block_output.JobBlock,
        action: Callable[[stable_block_output.JobBlock, stable_block_output.BlockRunner], T],
        runner: stable_block_output.BlockRunner,
    ) -> T:
        """Show the block's name and return the result of `action` for the block."""
        self._show_text(f"* {block.slug}\n")
        self._in_block = True
        try:
            return action(block, runner)
        finally:
            self._in_block = False

    def _play_turn(self) -> None:
        self.book.write_status("RUNNING", None)
        self.book.append_event("turn_start", step=0)
        try:
            self._record_reply(self._run_job(self.at["current"] or ""))
        except (ValueError, KeyError, TypeError, OSError) as error:
            self._record_reply(f"The job failed: {type(error).__name__}: {error}")
        self._save_progress(next=0, turn=False, reason="end_of_turn")
        self.book.append_event("turn_end", reason="end_of_turn")
        self._report_waiting()

    def _run_job(self, text: str) -> str:
        match = _JOB_FENCE.search(text)
        if match is None:
            return "This message contains no job. I only do jobs that mngr writes, for example: mngr tutorial sync --agent mechanic"
        job = json.loads(match[1])
        handlers = {"observe": self._write_tests, "try": self._try_blocks, "repair": self._repair_test}
        if job.get("job") not in handlers:
            return f"I do not know the job {job.get('job')!r}."
        return handlers[job["job"]](job)

    def _try_blocks(self, job: dict[str, Any]) -> str:
        """Run each block once after its set-up and return the results as JSON."""
        rows = []
        runner = self._build_block_runner(job)
        for block in _parse_blocks(job):
            ok, outcome = self._process_block(block, stable_block_output.try_block, runner)
            rows.append({"id": block.id, "ok": ok, "outcome": outcome})
        return json.dumps(rows)

    def _repair_test(self, job: dict[str, Any]) -> str:
        """Repair one test and return a summary."""
        outputs = os.environ.get("MNGR_OUTPUT_DIR") or os.path.join(self.work, ".mngr", "outputs")
        result = repair.repair_tests(job, self.work, outputs, lambda: self._read_input(0))
        return f"{job['test']}: {result['outcome']}.\n{result['summary']}"

    def _write_tests(self, job: dict[str, Any]) -> str:
        """Write a test for every block whose output is the same each time, and return a summary of all blocks."""
        target = os.path.join(job.get("place") or "", job["tests"], "test_observed.py")
        committed = self._read_committed(target)
        observed: list[stable_block_output.ObservedBlock] = []
        rows: list[str] = []
        failing: set[str] = set()
        runner = self._build_block_runner(job)
        for block in _parse_blocks(job):
            if generated_tests.has_citation(committed, block):  # an interrupted job already committed this test
                rows.append(f"- {block.slug}: already has a test")
                continue
            observation = self._process_block(block.exclude_setup(failing), stable_block_output.observe_block, runner)
            if isinstance(observation, stable_block_output.ObservedBlock):
                observed.append(observation)
                rows.append(f"- {block.slug}: same output in {stable_block_output.RUN_COUNT} runs")
            else:
                failing.add(block.text)
                rows.append(f"- {block.slug}: no test, because {observation.reason}")
                self._record_tool_call(
                    "observe",
                    {"path": f"{job['file']}:{block.line}", "block": block.id},
                    f"failed: {observation.reason}",
                )
        if not observed:
            return "\n".join(["I could not write any test." if not committed else "There is nothing to add.", *rows])
        taken = set(re.findall(r"^def (test_\w+)", committed, re.MULTILINE))
        text = generated_tests.write_test_module(job["file"], observed, taken)
        if committed:  # keep the tests that the file already has
            text = committed.rstrip("\n") + "\n" + text.partition(generated_tests.IMPORTS)[2]
        self._record_tool_call("write", {"path": target}, self._write_file({"path": target, "content": text}))
        message = f"[ADD_TEST] Test {len(observed)} {'block' if len(observed) == 1 else 'blocks'} of {job['file']} by their output"
        self._record_tool_call("commit", {"message": message}, self._commit(message, target))
        return "\n".join([f"{len(observed)} of {len(job['blocks'])} blocks now have a test in {target}.", *rows])

    def _read_committed(self, target: str) -> str:
        """Return the file as of the last commit, or "" if it has none; uncommitted text is written again."""
        argv = ["git", "show", f"HEAD:./{target}"]
        result = subprocess.run(argv, cwd=self.work, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        return result.stdout.decode("utf-8", "replace") if result.returncode == 0 else ""


def _parse_blocks(job: dict[str, Any]) -> list[stable_block_output.JobBlock]:
    """Return the blocks of the job, each with the blocks that precede it in the script."""
    blocks = []
    for row in job["blocks"]:
        preceding = [(other["section"], other["text"]) for other in job["script"] if other["line"] < row["line"]]
        blocks.append(
            stable_block_output.JobBlock(row["id"], row["slug"], row["line"], row["text"], row["section"], preceding)
        )
    return blocks


def main() -> int:
    """Work in this terminal and return the exit code."""
    return player.run_player(Mechanic)


if __name__ == "__main__":
    sys.exit(main())
