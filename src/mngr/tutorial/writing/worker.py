"""An agent that works on a tutorial or its tests: made, told, watched and stopped; what it committed comes here checked."""

from __future__ import annotations

import os
import time
from typing import Any

from mngr.agents.context import Context
from mngr.api import Fleet
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.tutorial.paths import TutorialPaths

MECHANIC = "mechanic"
_COST_CHECK_INTERVAL = 10.0  # seconds between two looks at what it costs
_MAX_FILE_BYTES = 1_000_000  # bytes of a file that is looked at
_MAX_NAMED_FILES = 20  # files that are named one by one
_CHANGE_WORDS = {"A": "was added", "D": "was taken away"}


class WriterRequest(Struct):
    """Who shall do it, where, and what it may cost."""

    agent: str = MECHANIC
    args: list[str] = []  # for the agent's program
    rounds: int = 3
    timeout: float = 3600.0  # seconds for one turn
    budget: float | None = None  # US dollars
    sandbox: bool = False
    network: str | None = None
    yolo: bool = False
    on: str | None = None  # an address without a name: @HOST, @.PROVIDER


class WriterAgent:
    """`with Worker(ctx, wish, "sync") as worker:` an agent on a branch of its own; it is stopped in the end, not destroyed."""

    def __init__(self, ctx: Context, wish: WriterRequest, what: str) -> None:
        self.fleet = Fleet(context=ctx)
        self.name = f"{what}-{os.urandom(3).hex()}"
        self._ctx = ctx
        self._wish = wish
        self._what = what

    def __enter__(self) -> WriterAgent:
        wish = self._wish
        self.fleet.create(
            self.name + (wish.on or ""),
            wish.agent,
            wish.args,
            dirty="ignore",
            sandbox=wish.sandbox,
            network=wish.network,
            yolo=wish.yolo,
            labels={"for": f"tutorial-{self._what}"},
        )
        self._ctx.note(f"{self.name} works on it; watch it with: mngr connect {self.name}")
        return self

    def __exit__(self, *_: object) -> None:
        self.fleet.stop([self.name])

    def send_and_wait(self, text: str) -> None:
        """Send a message and wait until its turn is over; MngrError when it does not get there, or costs too much."""
        outcome = self.fleet.message([self.name], text)[0]
        deadline = time.monotonic() + self._wish.timeout
        while outcome.ok:
            left = deadline - time.monotonic()
            if left <= 0:
                hint = f"look at it: mngr connect {self.name}"
                raise MngrError(f"{self.name} was not done within {self._wish.timeout:g}s", hint)
            slice_ = left if self._wish.budget is None else min(_COST_CHECK_INTERVAL, left)
            waited = self.fleet.wait([self.name], timeout=slice_)[0]
            self._check_budget()
            if waited.ok:
                self._check_state()
                return
        raise MngrError(f"{self.name}: {outcome.error}", outcome.hint or f"look at it: mngr connect {self.name}")

    def _check_state(self) -> None:
        agent = self.fleet.get(self.name)
        if agent.state == "WAITING" and agent.state_reason == "end_of_turn":
            return
        shown = f"{agent.state} ({agent.state_reason})" if agent.state_reason else agent.state
        raise MngrError(f"{self.name} cannot go on: it is {shown}", f"help it: mngr connect {self.name} --start")

    def get_cost(self) -> float | None:
        """US dollars so far; None when that is not known."""
        used = self.fleet.usage([self.name])
        return used[0].cost_usd if used else None

    def _check_budget(self) -> None:
        budget = self._wish.budget
        if budget is None:
            return
        cost = self.get_cost()
        if cost is not None and cost > budget:
            raise MngrError(
                f"{self.name} has cost ${cost:.2f}, and may cost ${budget:.2f}",
                "see its work: mngr diff " + self.name,
            )

    def read_transcript(self) -> list[dict[str, Any]]:
        """Its conversation."""
        return list(self.fleet.transcript(self.name))

    def list_unexpected_changes(self, places: TutorialPaths, commit: str, own: str) -> list[str]:
        """What it committed that is not at `own`, the one path it may change: a line each."""
        base = self.fleet.get(self.name).base
        if base is None:
            return []
        only = [":(top)", f":(exclude,literal){places.to_display_path(own)}"]
        mine = get_project_prefix(self._ctx, places) + places.to_display_path(own)
        words = ("diff", "--name-status", "-z", "--no-renames", base, commit, "--", *only)
        said = git.run_checked(self._ctx.local_host, places.root, *words).split("\0")
        found = [
            f"{path} {_CHANGE_WORDS.get(kind, 'was changed')}, and nothing but {mine} is yours to change: make it as it is in {base[:12]}"
            for kind, path in zip(said[::2], said[1::2], strict=False)
        ]
        more = len(found) - _MAX_NAMED_FILES
        return found[:_MAX_NAMED_FILES] + ([f"{more} more files that are not yours were changed"] if more > 0 else [])


def get_project_prefix(ctx: Context, places: TutorialPaths) -> str:
    """Where the project is in its repository: empty, or a path that ends with a slash."""
    return git.run_checked(ctx.local_host, places.root, "rev-parse", "--show-prefix").strip()


def check_clean(ctx: Context, places: TutorialPaths, *paths: str) -> None:
    """MngrError when files have changes that are not committed: an agent starts from what is."""
    if git.find_repo(ctx.local_host, places.root) is None:
        raise MngrError(f"{places.root} is not in a git repository", "git init it, and commit")
    shown = [places.to_display_path(path) for path in paths]
    if git.run_checked(ctx.local_host, places.root, "status", "--porcelain", "--", *shown).strip():
        raise MngrError(
            f"{' and '.join(shown)} have changes that are not committed",
            "commit them: the agent starts from there",
        )


def read_committed(ctx: Context, places: TutorialPaths, commit: str, path: str, ending: str = "") -> dict[str, bytes]:
    """Path and content of every file below a path of a commit, links and large ones left out. Nothing of it is run."""
    listed = git.run_checked(
        ctx.local_host, places.root, "ls-tree", "-r", "-l", "-z", commit, "--", places.to_display_path(path)
    )
    found: dict[str, bytes] = {}
    for row in listed.split("\0"):
        about, _, name = row.partition("\t")
        mode, _, sha, size = [*about.split(), "", "", "", ""][:4]
        if mode.startswith("100") and name.endswith(ending) and size.isdigit() and int(size) < _MAX_FILE_BYTES:
            found[name] = git.run(ctx.local_host, places.root, "cat-file", "blob", sha).out
    return found
