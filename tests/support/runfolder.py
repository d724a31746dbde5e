"""Builds the folder of a finished run of any size: journal, commits, receipts, transcripts and recordings."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

from mngr.base import time_format
from mngr.base.paths import Home
from mngr.mapreduce.run_dir import RunDir, make_slug
from mngr.providers.local import LocalHost
from mngr.web.report.report import write_report

BEGAN = time_format.parse_timestamp("2026-11-16T09:00:00.000Z")
ENDS = (
    ("fixed", "fixed", "confirmed"), ("improved", "improved", "confirmed"), ("unchanged", "unchanged", "confirmed"),
    ("fixed", "refuted", "refuted"), ("fixed", "flaky", "flaky"), ("blocked", "blocked", None), ("improved", "unverified", "unverified"),
    (None, "failed", None),
)  # fmt: skip
WEIGHTS = (34, 18, 22, 7, 4, 6, 3, 6)
CAST = '{"version": 2, "width": 60, "height": 8}\n[0.1, "o", "$ shop list\\r\\n"]\n[0.5, "o", "NAME   PRICE\\r\\n"]\n[0.9, "o", "\\u001b[32mtea\\u001b[0m    3.20\\r\\n"]\n'


class RunFolder:
    """Builds one run folder. The times are invented, and the same for the same size."""

    def __init__(self, root: Path, name: str, *, seed: int = 7) -> None:
        self.run = RunDir(str(root), name)
        self._rows: list[tuple[float, dict[str, Any]]] = []
        self._chance = random.Random(seed)
        self.base = ""
        Path(self.run.tasks).mkdir(parents=True)
        self._git("init", "-q", "--bare", "--template=", self.run.repo)
        self.base = self.commit(None, "The shop", {"shop.py": "def price(name):\n    return PRICES[name]\n"})
        plan = {"v": 1, "kind": "tmr", "base": self.base, "pytest": ["pytest"], "agent": "claude"}
        Path(self.run.plan).write_text(json.dumps(plan))

    def _git(self, *words: str, stdin: str = "") -> str:
        names = {f"GIT_{role}_{field}": value for role in ("AUTHOR", "COMMITTER") for field, value in (("NAME", "An agent"), ("EMAIL", "a@b"), ("DATE", "1790000000 +0000"))}  # fmt: skip
        completed = subprocess.run(
            ["git", *words], input=stdin, env={"PATH": "/usr/bin:/bin", **names}, capture_output=True, text=True, check=True, errors="replace",
        )  # fmt: skip
        return completed.stdout.strip()

    def commit(self, parent: str | None, message: str, files: dict[str, str]) -> str:
        """Create a commit with exactly these files."""
        rows = []
        for path, text in sorted(files.items()):
            blob = self._git("-C", self.run.repo, "hash-object", "-w", "--stdin", stdin=text)
            rows.append(f"100644 blob {blob}\t{path}\n")
        tree = self._git("-C", self.run.repo, "mktree", stdin="".join(rows))
        parent_options = ["-p", parent] if parent else []
        return self._git("-C", self.run.repo, "commit-tree", tree, *parent_options, "-F", "-", stdin=message)

    def row(self, seconds: float, kind: str, **data: Any) -> None:
        """Add a row to the journal."""
        self._rows.append(
            (seconds, {"v": 1, "at": time_format.format_timestamp(BEGAN + seconds), "type": kind, **data})
        )

    def fill(self, count: int) -> None:
        """Add `count` ordinary tasks, done by twenty agents at a time."""
        tests = [f"tests/test_{('cart', 'price', 'stock', 'order')[n % 4]}.py::test_{n:03d}" for n in range(count)]
        self.row(0, "tests_collected", tests=[])
        self.row(
            90,
            "baseline",
            tests=count + 12,
            counts={"pass": count // 2, "fail": count - count // 2, "flaky": 12},
            skipped=2,
            root_causes=1,
        )
        self.row(90, "test_skipped", test="tests/test_old.py::test_gone", why="confirmed by an earlier run")
        signature = {
            "kind": "program",
            "exception": "KeyError",
            "frame": "shop.py:2 price",
            "message": "'tea'",
        }
        self.row(90, "root_cause", root_cause={"id": "cb50d2fd1", "title": "KeyError in shop.py:2 price: 'tea'", "signature": signature, "tests": tests[:9], "is_shared": True})  # fmt: skip
        free_times = [91.0 + n * 3 for n in range(20)]
        for test in tests:
            start = min(free_times)
            ending = self._chance.choices(ENDS, WEIGHTS)[0]
            free_times[free_times.index(start)] = self.task(test, start, ending) + 2
        self.row(max(free_times), "ended", outcome="settled")

    def task(
        self, test: str, start: float, ending: tuple[str | None, str, str | None], *,
        claim: dict[str, Any] | None = None, check: dict[str, Any] | None = None, commit: str | None = None,
    ) -> float:  # fmt: skip
        """Add one task from its launch to its claimed outcome, outcome and verdict. Return the time of its end."""
        claimed, outcome, verdict = ending
        slug, duration = make_slug(test), self._chance.uniform(20, 160)
        self.row(90.5, "task", task={"slug": slug, "title": test, "data": {"kind": "test"}})
        self.row(start, "launch", slug=slug, agent=f"tmr-{self.run.name}-{slug}", attempt=1, base=self.base)
        self.row(start + 3, "launched", slug=slug, id="a-1", host="local")
        self.row(start + 6, "prompted", slug=slug, proof="transcript")
        end = start + 6 + duration
        if self._chance.random() < 0.12:
            self.row(end, "parked", slug=slug, reason="rate_limit", until=None)
            end += self._chance.uniform(30, 120)
            self.row(end, "unparked", slug=slug)
            end += 20
        if self._chance.random() < 0.1:
            self.row(end, "remind", slug=slug, number=1, why="result")
            self.row(end + 3, "reminded", slug=slug)
            end += 25
        self.row(end, "pull", slug=slug)
        usage = {
            "input_tokens": int(duration * 900),
            "output_tokens": int(duration * 90),
            "cost_usd": round(duration * 0.004, 4),
        }
        final_claim = claim if claim is not None else self._claim(claimed, test)
        self.row(
            end + 2,
            "pulled",
            slug=slug,
            commit=commit or self.base,
            commits=1,
            claim=final_claim,
            usage=usage,
            tokens_before_edit=int(duration * 200),
            final=True,
        )
        self.row(end + 2, "check", slug=slug)
        end += 2 + self._chance.uniform(5, 25)
        receipt = check if check is not None else self._check(test, verdict)
        if receipt is not None:
            self.row(end, "checked", slug=slug, check=receipt)
        reason = (
            receipt["reason"]
            if receipt is not None and verdict != "confirmed"
            else "the agent left no result"
            if claimed is None
            else None
        )
        self.row(end, "settled", slug=slug, outcome=outcome, reason=reason)
        return end

    def _claim(self, claimed: str | None, test: str) -> dict[str, Any]:
        if claimed is None:
            return {}
        kinds = {"fixed": ["FIX_IMPL", "FIX_TEST"], "improved": ["IMPROVE_TEST"]}.get(claimed, [])
        escalations = [
            {
                "kind": "BLOCKER",
                "title": "the price of tea is nowhere promised",
                "detail": "cart and stock differ",
            }
        ]
        return {
            "outcome": claimed, "before": "fail", "after": "pass", "summary": f"What {test.rpartition('::')[2]} promises is checked again.",
            "changes": [{"kind": kind, "summary": "as small as it can be", "commits": []} for kind in kinds[: 1 + self._chance.randrange(2)]],
            "escalations": escalations if claimed == "blocked" else [],
        }  # fmt: skip

    def _check(self, test: str, verdict: str | None) -> dict[str, Any] | None:
        if verdict is None:
            return None
        reasons = {
            "confirmed": "it passed 3 of 3 times", "refuted": "it passes, but tests/test_cart.py:12: a check asks for less",
            "flaky": "it passed 2 of 3 times; first failure (fail): AssertionError", "unverified": "mngr could not run it: no clean room",
        }  # fmt: skip
        outcomes = {"flaky": ["pass", "fail", "pass"], "unverified": []}.get(verdict, ["pass"] * 3)
        guard = [{"rule": "weaker", "level": "refuse", "path": "tests/test_cart.py", "line": 12, "what": "a check asks for less", "old": "assert total == 3.20", "new": "assert total"}]  # fmt: skip
        return {
            "v": 1, "test": test, "verdict": verdict, "reason": reasons[verdict], "commit": self.base, "command": ["pytest", test], "runs": 3,
            "results": [{"outcome": outcome, "seconds": 0.8, "exit_code": 0, "why": "" if outcome == "pass" else "AssertionError"} for outcome in outcomes],
            "guard": guard if verdict == "refuted" else [], "isolation": "bwrap: no network", "environment": {"python": "3.11.2"},
        }  # fmt: skip

    def artifacts(
        self,
        test: str,
        where: str,
        transcript: str,
        *,
        casts: tuple[str, ...] = (CAST,),
        status: str = "passed",
    ) -> None:
        """Write what a test of mngr.e2e leaves, under `receipt` of its task or under `baseline`."""
        slug = make_slug(test)
        parent = Path(
            self.run.task_path(slug, "receipt") if where == "receipt" else f"{self.run.path}/baseline/{slug}/1"
        )
        directory = parent / f"{slug}-1"
        directory.mkdir(parents=True)
        (directory / "meta.json").write_text(json.dumps({"test": test, "status": status}))
        (directory / "transcript.txt").write_text(transcript)
        for n, cast in enumerate(casts):
            (directory / f"t{n}.cast").write_text(cast)

    def files(self, test: str, **texts: str) -> None:
        """Write files of a task by name. A `_` in a name stands for a dot."""
        task_dir = Path(self.run.task_path(make_slug(test)))
        task_dir.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (task_dir / name.replace("_", ".")).write_text(text, errors="surrogatepass")

    def report(self) -> str:
        """Write the report as `tmr report` does, and return the path of its first page."""
        return write_report(LocalHost(Home(f"{self.run.root}/home")), self.run)

    def write(self, *, until: float | None = None) -> None:
        """Write the journal, or only the rows of the first `until` seconds."""
        rows = [
            row for seconds, row in sorted(self._rows, key=lambda pair: pair[0]) if until is None or seconds <= until
        ]
        Path(self.run.journal).write_text("".join(json.dumps(row) + "\n" for row in rows))
