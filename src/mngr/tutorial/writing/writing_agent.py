"""Runs an agent that works on a tutorial or its tests, and reads what it committed."""

from __future__ import annotations

import os
import shlex
import time

from mngr.agents.context import Context
from mngr.agents.create.spec import AgentSpec
from mngr.api import Fleet
from mngr.base.errors import MngrError
from mngr.base.model import Outcome, Struct
from mngr.base.paths import find_project_root
from mngr.host import git
from mngr.kinds.transcript_entry import TranscriptEntry
from mngr.tutorial.paths import TutorialPaths

MECHANIC = "mechanic"
_COST_CHECK_INTERVAL = 10.0  # seconds between two checks of the cost
_MAX_FILE_BYTES = 1_000_000  # files of this size or larger are ignored
_MAX_NAMED_FILES = 20  # files that a message names at most
_CHANGE_WORDS = {"A": "was added", "D": "was deleted"}


class WriterRequest(Struct):
    """Which agent does the work, where, and at what cost."""

    agent: str = MECHANIC
    args: list[str] = []  # arguments for the agent's program
    rounds: int = 3
    timeout: float = 3600.0  # seconds for one turn of the agent
    budget: float | None = None  # US dollars
    sandbox: bool = False
    network: str | None = None
    yolo: bool = False
    on: str | None = None  # an address without a name: @HOST, @.PROVIDER


class WriterAgent:
    """An agent on its own branch, which gets the prompt as its first message.

    Leaving the `with` block stops the agent, but does not destroy it.
    """

    def __init__(self, ctx: Context, request: WriterRequest, purpose: str, prompt: str) -> None:
        self.fleet = Fleet(context=ctx)
        self.name = f"{purpose}-{os.urandom(3).hex()}"
        self._ctx = ctx
        self._request = request
        self._purpose = purpose
        self._prompt = prompt
        self._first_delivery: Outcome | None = None

    def __enter__(self) -> WriterAgent:
        request = self._request
        if not request.sandbox and (request.on or "@local") == "@local":
            project = find_project_root(self._ctx.cwd) or self._ctx.cwd
            self._ctx.require_project_trust(project, "an agent without --sandbox")
        spec = AgentSpec(
            address=self.name + (request.on or ""),
            kind=request.agent,
            command=request.args,
            dirty="ignore",
            sandbox=request.sandbox,
            network=request.network,
            yolo=request.yolo,
            labels={"for": f"tutorial-{self._purpose}"},
            message=self._prompt,
        )
        (created,) = self.fleet.create_many(spec)
        if isinstance(created, Exception):
            raise created
        self._first_delivery = created.message
        self._ctx.note(f"the agent {self.name} is working; watch it: mngr connect {self.name}")
        return self

    def __exit__(self, *_: object) -> None:
        self.fleet.stop([self.name])

    def finish_turn(self, reminder: str | None = None) -> None:
        """Send the reminder if there is one, and wait for the end of the turn.

        Raise MngrError if a message did not arrive, after a timeout, or if the cost is too high.
        """
        delivery = self._first_delivery if reminder is None else self.fleet.message([self.name], reminder)[0]
        assert delivery is not None
        if not delivery.ok:
            raise MngrError(f"{self.name}: {delivery.error}", delivery.hint or f"look at it: mngr connect {self.name}")
        deadline = time.monotonic() + self._request.timeout
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                hint = f"look at it: mngr connect {self.name}"
                raise MngrError(f"{self.name} did not finish within {self._request.timeout:g}s", hint)
            wait_seconds = remaining if self._request.budget is None else min(_COST_CHECK_INTERVAL, remaining)
            waited = self.fleet.wait([self.name], timeout=wait_seconds)[0]
            self._check_budget()
            if waited.ok:
                self._check_state()
                return

    def _check_state(self) -> None:
        agent = self.fleet.get(self.name)
        if agent.state == "WAITING" and agent.state_reason == "end_of_turn":
            return
        state = f"{agent.state} ({agent.state_reason})" if agent.state_reason else agent.state
        raise MngrError(
            f"{self.name} cannot continue: it is {state}", f"connect to it and help: mngr connect {self.name} --start"
        )

    def get_cost(self) -> float | None:
        """Return the cost so far in US dollars, or None when it is unknown."""
        usage = self.fleet.usage([self.name])
        return usage[0].cost_usd if usage else None

    def _check_budget(self) -> None:
        budget = self._request.budget
        if budget is None:
            return
        cost = self.get_cost()
        if cost is not None and cost > budget:
            raise MngrError(
                f"{self.name} has cost ${cost:.2f}, more than its budget of ${budget:.2f}",
                f"see its work: mngr diff {self.name}",
            )

    def read_transcript(self) -> list[TranscriptEntry]:
        """Return the agent's conversation."""
        return list(self.fleet.transcript(self.name))

    def list_unexpected_changes(self, tutorial_paths: TutorialPaths, commit: str, allowed: str) -> list[str]:
        """Return a line for each file in the commit that is outside `allowed`, the only path the agent may change."""
        base = self.fleet.get(self.name).base
        if base is None:
            return []
        pathspecs = [":(top)", f":(exclude,literal){tutorial_paths.to_display_path(allowed)}"]
        allowed_path = get_project_prefix(self._ctx, tutorial_paths) + tutorial_paths.to_display_path(allowed)
        arguments = ("diff", "--name-status", "-z", "--no-renames", base, commit, "--", *pathspecs)
        fields = git.run_checked(self._ctx.local_host, tutorial_paths.root, *arguments, git_command=git.SAFE_GIT).split(
            "\0"
        )
        changes = [
            f"{path} {_CHANGE_WORDS.get(kind, 'was changed')}, but only {allowed_path} may be changed: restore the version of {base[:12]}"
            for kind, path in zip(fields[::2], fields[1::2], strict=False)
        ]
        hidden_count = len(changes) - _MAX_NAMED_FILES
        return changes[:_MAX_NAMED_FILES] + (
            [f"more changed files outside {allowed_path}: {hidden_count}"] if hidden_count > 0 else []
        )


def get_project_prefix(ctx: Context, tutorial_paths: TutorialPaths) -> str:
    """Return the project's place in its repository: empty, or a path that ends with a slash."""
    return git.run_checked(
        ctx.local_host, tutorial_paths.root, "rev-parse", "--show-prefix", git_command=git.SAFE_GIT
    ).strip()


def check_clean(ctx: Context, tutorial_paths: TutorialPaths, *paths: str) -> None:
    """Raise MngrError when files have uncommitted changes, because the agent starts from the last commit."""
    if git.find_repo(ctx.local_host, tutorial_paths.root, git.SAFE_GIT) is None:
        raise MngrError(
            f"{tutorial_paths.root} is not in a git repository",
            f"create a repository, then commit your files: git init {shlex.quote(tutorial_paths.root)}",
        )
    display_paths = [tutorial_paths.to_display_path(path) for path in paths]
    if git.run_checked(
        ctx.local_host, tutorial_paths.root, "status", "--porcelain", "--", *display_paths, git_command=git.GIT
    ).strip():
        raise MngrError(
            f"{' and '.join(display_paths)} have uncommitted changes, and the agent starts from the last commit",
            f"commit them: git add {shlex.join(display_paths)} && git commit -m 'Update the tutorial'",
        )


def read_committed(
    ctx: Context, tutorial_paths: TutorialPaths, commit: str, path: str, ending: str = ""
) -> dict[str, bytes]:
    """Return the content of every file below a path in a commit, except links and large files."""
    listing = git.run_checked(
        ctx.local_host,
        tutorial_paths.root,
        "ls-tree",
        "-r",
        "-l",
        "-z",
        commit,
        "--",
        tutorial_paths.to_display_path(path),
        git_command=git.SAFE_GIT,
    )
    contents: dict[str, bytes] = {}
    for row in listing.split("\0"):
        metadata, _, name = row.partition("\t")
        mode, _, sha, size = [*metadata.split(), "", "", "", ""][:4]
        if mode.startswith("100") and name.endswith(ending) and size.isdigit() and int(size) < _MAX_FILE_BYTES:
            contents[name] = git.run(
                ctx.local_host, tutorial_paths.root, "cat-file", "blob", sha, git_command=git.SAFE_GIT
            ).out
    return contents
