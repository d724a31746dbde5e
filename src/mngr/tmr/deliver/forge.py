"""Draft pull requests, by the forge's own program: `gh`, or `glab` for GitLab; where there is none, the commands for it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence

from mngr.base import shell
from mngr.base.errors import MngrError, TimedOut
from mngr.base.model import Struct
from mngr.base.shell import ProcessResult
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.commits import untrusted

_MAX_TITLE = 200
_TIMEOUT = 300.0  # seconds for a push, and for each word with a forge
_CHDIR_SCRIPT = 'cd -- "$1" && shift && exec "$@"'  # these programs act on where they are
_URL = re.compile(r"https?://[^\s\x1b\"'<>]+")
_INSTALL_URLS = {"gh": "https://cli.github.com", "glab": "https://gitlab.com/gitlab-org/cli"}


def get_base_branch(local: Host, root: str, onto: str | None) -> str:
    """The branch that a pull request is for: what it stands on if that is one, else the one that is checked out."""
    name = (onto or "").removeprefix("refs/").removeprefix("heads/").removeprefix("remotes/").removeprefix("origin/")
    for place in ("heads", "remotes/origin"):
        if name and git.find_commit(local, root, f"refs/{place}/{name}") is not None:
            return name
    repo = git.find_repo(local, root)
    return (repo.branch if repo is not None else None) or "main"


class PullRequestResult(Struct):
    """What came of it; `commands` are for people, where nothing was done."""

    url: str | None
    commands: list[str] = []
    note: str = ""


class _Forge(Struct):
    """A repository, and how to speak with where it is shared."""

    local: Host
    root: str
    remote: str
    branch: str
    program: str
    title: str
    body_path: str

    def build_push_command(self, rewrite: str) -> list[str]:
        """The command; `rewrite` is the commit that may be replaced there."""
        ref = f"refs/heads/{self.branch}"
        lease = [f"--force-with-lease={ref}:{rewrite}"] if rewrite else []
        return ["git", "-C", self.root, "push", *lease, "--", self.remote, f"{ref}:{ref}"]

    def build_create_command(self, base: str, body: str) -> list[str]:
        """The command for a new one."""
        if self.program == "gh":
            words = [
                "--title",
                self.title,
                "--body-file",
                self.body_path,
                "--base",
                base,
                "--head",
                self.branch,
            ]
            return ["gh", "pr", "create", "--draft", *words]
        words = [
            "--title",
            self.title,
            "--description",
            body,
            "--source-branch",
            self.branch,
            "--target-branch",
            base,
        ]
        return ["glab", "mr", "create", "--draft", *words, "--yes"]  # fmt: skip

    def build_edit_command(self, body: str, is_draft: bool) -> list[str]:
        """The command for the one there is; on GitLab a title without its mark would make it ready."""
        if self.program == "gh":
            return ["gh", "pr", "edit", self.branch, "--title", self.title, "--body-file", self.body_path]
        words = ["--title", self.title, "--description", body, *(["--draft"] if is_draft else [])]
        return ["glab", "mr", "update", self.branch, *words]

    def run(self, argv: Sequence[str]) -> ProcessResult:
        """In the repository; no word of it is read by a shell."""
        try:
            return self.local.run(["sh", "-c", _CHDIR_SCRIPT, argv[0], self.root, *argv], timeout=_TIMEOUT)
        except TimedOut:
            raise TimedOut(
                f"{argv[0]} did not answer within {_TIMEOUT:g}s",
                f"try it yourself: {self.format_command(argv)}",
            ) from None

    def format_command(self, argv: Sequence[str]) -> str:
        """A command as people would type it: a long text comes from its file."""
        words = [shell.quote(word) for word in argv]
        if "--description" in argv:
            words[list(argv).index("--description") + 1] = f'"$(cat {shell.quote(self.body_path)})"'
        return " ".join(words)


def open_pull_request(
    local: Host, root: str, branch: str, base_branch: str, title: str, body_path: str, *, remote: str = "origin", rewrite: str = "",
) -> PullRequestResult:  # fmt: skip
    """Push the branch and open a draft; the one there is gets the text instead. Raises MngrError.

    `rewrite` is the commit of the branch there that may be replaced. Without a remote or its program nothing is done.
    """
    forge, missing = _detect_forge(local, root, branch, title, body_path, remote)
    create = forge.build_create_command(base_branch, _read_body(body_path))
    if missing:
        return PullRequestResult(
            url=None,
            commands=[shell.join(forge.build_push_command(rewrite)), forge.format_command(create)],
            note=missing,
        )
    _push_branch(forge, rewrite)
    made = forge.run(create)
    if made.code and "already exists" in _get_output(made):
        opened = _edit_pull_request(forge)
        return opened.replace(url=opened.url or _find_url(made), note="there was one already: it has the new text")
    _check_result(forge, create, made)
    return PullRequestResult(url=_find_url(made), note=f"a draft, by {forge.program}")


def update_pull_request(
    local: Host, root: str, branch: str, title: str, body_path: str, *, remote: str = "origin", rewrite: str = "",
) -> PullRequestResult:  # fmt: skip
    """Push the branch and give its pull request the text; the same rules as for a new one. Raises MngrError."""
    forge, missing = _detect_forge(local, root, branch, title, body_path, remote)
    if missing:
        commands = [
            shell.join(forge.build_push_command(rewrite)),
            forge.format_command(forge.build_edit_command("", is_draft=True)),
        ]
        return PullRequestResult(url=None, commands=commands, note=missing)
    _push_branch(forge, rewrite)
    return _edit_pull_request(forge)


def _detect_forge(local: Host, root: str, branch: str, title: str, body_path: str, remote: str) -> tuple[_Forge, str]:
    """The forge, and what is missing to speak with it."""
    asked = git.run(local, root, "remote", "get-url", "--", remote)
    program = "glab" if "gitlab" in _parse_host(asked.text) else "gh"
    forge = _Forge(
        local=local, root=root, remote=remote, branch=branch, program=program, title=untrusted.clean_line(title, _MAX_TITLE), body_path=body_path,
    )  # fmt: skip
    if asked.code:
        return (
            forge,
            f"there is no remote {remote!r} in {root}: git remote add {shell.quote(remote)} URL, then:",
        )
    if shutil.which(program, path=shell.get_absolute_search_path()) is None:
        return forge, f"{program} is not installed ({_INSTALL_URLS[program]}); by hand:"
    return forge, ""


def _parse_host(url: str) -> str:
    """Of `https://who@host/x`, `ssh://host:22/x` and `who@host:x`; of a path nothing."""
    found = re.match(r"(?:[a-z+]+://)?(?:[^@/]*@)?([^/:@]+):?", url)
    return found[1].lower() if found and ("://" in url or ":" in url) else ""


def _read_body(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _push_branch(forge: _Forge, rewrite: str) -> None:
    argv = forge.build_push_command(rewrite)
    done = forge.run(argv)
    if not done.code:
        return
    refused = next((line for line in _get_output(done).split("\n") if "rejected]" in line), "")
    why = refused.partition("(")[2].rstrip(")") or git.describe_failure(done)
    hint = f"try it yourself: {forge.format_command(argv)}"
    if refused and "remote rejected" not in refused:
        hint = f"somebody else pushed to it: git fetch {shell.quote(forge.remote)}, look at their commits, then --update-pr again"
    raise MngrError(f"{forge.branch} cannot be pushed to {forge.remote}: {_clean_text(why)}", hint)


def _edit_pull_request(forge: _Forge) -> PullRequestResult:
    is_draft = forge.program == "gh" or _is_draft(forge)
    argv = forge.build_edit_command(_read_body(forge.body_path), is_draft)
    done = forge.run(argv)
    _check_result(forge, argv, done)
    return PullRequestResult(url=_find_url(done), note=f"changed by {forge.program}")


def _is_draft(forge: _Forge) -> bool:
    """Whether it is one now; yes where nobody knows, for a draft does no harm."""
    done = forge.run(["glab", "mr", "view", forge.branch, "--output", "json"])
    try:
        row = json.loads(done.out)
    except ValueError:
        return True
    return not isinstance(row, dict) or row.get("draft") is not False


def _check_result(forge: _Forge, argv: Sequence[str], done: ProcessResult) -> None:
    if done.code:
        name, said = " ".join(argv[:3]), _clean_text(_get_output(done))
        hint = f"see: {argv[0]} auth status; then: {forge.format_command(argv)}"
        if re.search("no (open )?(pull|merge) requests? (found|available)", said):
            hint = "open one: --pr instead of --update-pr"
        raise MngrError(f"the branch is pushed, but {name} failed: {said}", hint)


def _get_output(done: ProcessResult) -> str:
    return (done.err.strip() or done.out.strip() or b"exit code %d" % done.code).decode("utf-8", "replace")


def _clean_text(words: str) -> str:
    return untrusted.clean_line(shell.redact_password(words), 500)


def _find_url(done: ProcessResult) -> str | None:
    """The last that it names."""
    found = _URL.findall((done.err + b"\n" + done.out).decode("utf-8", "replace"))
    return untrusted.clean_line(found[-1], 500) if found else None
