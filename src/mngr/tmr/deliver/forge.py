"""Opens draft pull requests with the forge's own program: `gh`, or `glab` for GitLab.

Without such a program, it returns the commands for a person.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence

from mngr.base import shell
from mngr.base.errors import MngrError, TimedOut
from mngr.base.model import Struct
from mngr.base.shell import ProcessResult
from mngr.base.untrusted_json import parse_json
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.commits import clean_untrusted_text

_REMOTE = "origin"
_MAX_TITLE = 200
_TIMEOUT = 300.0  # seconds for a push, and for each call of the forge's program
_CHDIR_SCRIPT = 'cd -- "$1" && shift && exec "$@"'  # these programs act on the current directory
_URL = re.compile(r"https?://[^\s\x1b\"'<>]+")
_INSTALL_URLS = {"gh": "https://cli.github.com", "glab": "https://gitlab.com/gitlab-org/cli"}


def get_base_branch(local: Host, root: str, onto: str | None) -> str:
    """Return the target branch of a pull request: `onto` if it is a branch, else the checked-out branch."""
    name = (onto or "").removeprefix("refs/").removeprefix("heads/").removeprefix("remotes/").removeprefix("origin/")
    for namespace in ("heads", "remotes/origin"):
        if name and git.find_commit(local, root, f"refs/{namespace}/{name}", git.SAFE_GIT) is not None:
            return name
    repo = git.find_repo(local, root, git.SAFE_GIT)
    return (repo.branch if repo is not None else None) or "main"


class PullRequestResult(Struct):
    """The result of opening or updating a pull request; `commands` are for people, when nothing was done."""

    url: str | None
    commands: list[str] = []
    note: str = ""


class _Forge(Struct):
    """A repository and its forge."""

    local: Host
    root: str
    branch: str
    program: str
    title: str
    body_path: str

    def build_push_command(self, rewrite: str) -> list[str]:
        """Return the push command; `rewrite` is the remote commit that may be replaced."""
        ref = f"refs/heads/{self.branch}"
        lease = [f"--force-with-lease={ref}:{rewrite}"] if rewrite else []
        return ["git", "-C", self.root, "push", *lease, "--", _REMOTE, f"{ref}:{ref}"]

    def build_create_command(self, base: str, body: str) -> list[str]:
        """Return the command that opens a draft."""
        if self.program == "gh":
            args = [
                "--title",
                self.title,
                "--body-file",
                self.body_path,
                "--base",
                base,
                "--head",
                self.branch,
            ]
            return ["gh", "pr", "create", "--draft", *args]
        args = [
            "--title",
            self.title,
            "--description",
            body,
            "--source-branch",
            self.branch,
            "--target-branch",
            base,
        ]
        return ["glab", "mr", "create", "--draft", *args, "--yes"]

    def build_edit_command(self, body: str, is_draft: bool) -> list[str]:
        """Return the command that edits the pull request. On GitLab, a title without its mark would end the draft."""
        if self.program == "gh":
            return ["gh", "pr", "edit", self.branch, "--title", self.title, "--body-file", self.body_path]
        args = ["--title", self.title, "--description", body, *(["--draft"] if is_draft else [])]
        return ["glab", "mr", "update", self.branch, *args]

    def run(self, argv: Sequence[str]) -> ProcessResult:
        """Run a command in the repository; no argument is interpreted by a shell."""
        try:
            return self.local.run(["sh", "-c", _CHDIR_SCRIPT, argv[0], self.root, *argv], timeout=_TIMEOUT)
        except TimedOut:
            raise TimedOut(
                f"{argv[0]} did not answer within {_TIMEOUT:g}s",
                f"run the command yourself: {self.format_command(argv)}",
            ) from None

    def format_command(self, argv: Sequence[str]) -> str:
        """Return a command for people to type; a long text is read from its file."""
        words = [shell.quote(word) for word in argv]
        if "--description" in argv:
            words[list(argv).index("--description") + 1] = f'"$(cat {shell.quote(self.body_path)})"'
        return " ".join(words)


def open_pull_request(
    local: Host, root: str, branch: str, base_branch: str, title: str, body_path: str, *, rewrite: str = ""
) -> PullRequestResult:
    """Push the branch and open a draft, or update the pull request that exists. Raises MngrError.

    `rewrite` is the remote commit of the branch that may be replaced. Without a remote or
    the forge's program, nothing is done.
    """
    forge, missing = _detect_forge(local, root, branch, title, body_path)
    create_command = forge.build_create_command(base_branch, _read_body(body_path))
    if missing:
        return PullRequestResult(
            url=None,
            commands=[shell.join(forge.build_push_command(rewrite)), forge.format_command(create_command)],
            note=missing,
        )
    _push_branch(forge, rewrite)
    result = forge.run(create_command)
    if result.code and "already exists" in _get_output(result):
        updated = _edit_pull_request(forge)
        return updated.replace(
            url=updated.url or _find_url(result), note="updated the text of the existing pull request"
        )
    _check_result(forge, create_command, result)
    return PullRequestResult(url=_find_url(result), note=f"opened a draft with {forge.program}")


def update_pull_request(
    local: Host, root: str, branch: str, title: str, body_path: str, *, rewrite: str = ""
) -> PullRequestResult:
    """Push the branch and update its pull request, by the rules of `open_pull_request`. Raises MngrError."""
    forge, missing = _detect_forge(local, root, branch, title, body_path)
    if missing:
        commands = [
            shell.join(forge.build_push_command(rewrite)),
            forge.format_command(forge.build_edit_command("", is_draft=True)),
        ]
        return PullRequestResult(url=None, commands=commands, note=missing)
    _push_branch(forge, rewrite)
    return _edit_pull_request(forge)


def _detect_forge(local: Host, root: str, branch: str, title: str, body_path: str) -> tuple[_Forge, str]:
    """Return the forge, and what is missing to use it."""
    remote_url = git.run(local, root, "remote", "get-url", "--", _REMOTE, git_command=git.SAFE_GIT)
    program = "glab" if "gitlab" in _parse_host(remote_url.text) else "gh"
    clean_title = clean_untrusted_text.clean_line(title, _MAX_TITLE)
    forge = _Forge(local=local, root=root, branch=branch, program=program, title=clean_title, body_path=body_path)
    if remote_url.code:
        return forge, f"there is no remote {_REMOTE!r} in {root}. Add one (git remote add {_REMOTE} URL), then run:"
    if shutil.which(program, path=shell.get_path_without_relative_entries()) is None:
        return forge, f"{program} is not installed ({_INSTALL_URLS[program]}). Run these commands yourself:"
    return forge, ""


def _parse_host(url: str) -> str:
    """Return the host of `https://who@host/x`, `ssh://host:22/x` or `who@host:x`; empty for a path."""
    match = re.match(r"(?:[a-z+]+://)?(?:[^@/]*@)?([^/:@]+):?", url)
    return match[1].lower() if match and ("://" in url or ":" in url) else ""


def _read_body(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _push_branch(forge: _Forge, rewrite: str) -> None:
    argv = forge.build_push_command(rewrite)
    result = forge.run(argv)
    if not result.code:
        return
    rejected_line = next((line for line in _get_output(result).split("\n") if "rejected]" in line), "")
    reason = rejected_line.partition("(")[2].rstrip(")") or git.describe_failure(result)
    hint = f"run the command yourself: {forge.format_command(argv)}"
    if rejected_line and "remote rejected" not in rejected_line:
        hint = f"somebody else pushed to the branch; read their commits, then update again: git fetch {_REMOTE}; mngr tmr integrate --update-pr"
    raise MngrError(f"cannot push {forge.branch} to {_REMOTE}: {_clean_text(reason)}", hint)


def _edit_pull_request(forge: _Forge) -> PullRequestResult:
    is_draft = forge.program == "gh" or _is_draft(forge)
    argv = forge.build_edit_command(_read_body(forge.body_path), is_draft)
    result = forge.run(argv)
    _check_result(forge, argv, result)
    return PullRequestResult(url=_find_url(result), note=f"updated with {forge.program}")


def _is_draft(forge: _Forge) -> bool:
    """True when the merge request is a draft, or when that is unknown, because a draft does no harm."""
    result = forge.run(["glab", "mr", "view", forge.branch, "--output", "json"])
    try:
        row = parse_json(result.out)
    except ValueError:
        return True
    return not isinstance(row, dict) or row.get("draft") is not False


def _check_result(forge: _Forge, argv: Sequence[str], result: ProcessResult) -> None:
    """Raise MngrError when the forge's program failed."""
    if result.code:
        command_name, output = " ".join(argv[:3]), _clean_text(_get_output(result))
        hint = f"check your login, then try again: {argv[0]} auth status; {forge.format_command(argv)}"
        if re.search("no (open )?(pull|merge) requests? (found|available)", output):
            hint = "open a pull request first: mngr tmr integrate --pr"
        raise MngrError(f"the branch is pushed, but {command_name} failed: {output}", hint)


def _get_output(result: ProcessResult) -> str:
    return (result.err.strip() or result.out.strip() or b"exit code %d" % result.code).decode("utf-8", "replace")


def _clean_text(text: str) -> str:
    return clean_untrusted_text.clean_line(shell.redact_password(text), 500)


def _find_url(result: ProcessResult) -> str | None:
    """Return the last URL in the output, or None."""
    urls = _URL.findall((result.err + b"\n" + result.out).decode("utf-8", "replace"))
    return clean_untrusted_text.clean_line(urls[-1], 500) if urls else None
