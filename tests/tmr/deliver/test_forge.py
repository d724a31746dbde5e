"""Tests draft pull requests with the real gh and with fake programs; the remote is a repository on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.base.errors import MngrError
from mngr.base.paths import Home
from mngr.providers.local import LocalHost
from mngr.tmr.deliver.forge import PullRequestResult, open_pull_request, update_pull_request
from tests.conftest import run_git
from tests.support.github import HOST, github

BRANCH = "mngr/r/integrated"
TITLE = 'Two fixes; $(touch evil) "quoted"'


class Bench:
    """A repository with the branch, its remote, and a folder for programs."""

    def __init__(self, root: Path, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.repo, self.remote, self.programs = repo, root / "remote.git", root / "programs"
        self.programs.mkdir()
        self.body = root / "PR body.md"
        self.body.write_text("Green.\n`x` $(touch evil)\n")
        run_git(repo, "branch", BRANCH)
        run_git(root, "init", "-q", "--bare", str(self.remote))
        run_git(repo, "remote", "add", "origin", str(self.remote))
        monkeypatch.setenv("PATH", f"{self.programs}:/usr/bin:/bin")
        self.home = Home(str(root / "home"))

    def program(self, name: str, script: str) -> None:
        """Create a fake program that logs its directory and arguments, and then runs the script."""
        path = self.programs / name
        path.write_text(f'#!/bin/sh\n{{ pwd; printf "%s\\n" "$@"; echo; }} >> {self.programs}/{name}.log\n{script}\n')
        path.chmod(0o755)

    def told(self, name: str) -> list[list[str]]:
        """Return the directory and the arguments of each call."""
        log = (self.programs / f"{name}.log").read_text().replace(self.body.read_text(), "BODY")
        return [call.split("\n") for call in log.removesuffix("\n\n").split("\n\n")]

    def open(self, rewrite: str = "") -> PullRequestResult:
        body, local = str(self.body), LocalHost(self.home)
        return open_pull_request(local, str(self.repo), BRANCH, "main", TITLE, body, rewrite=rewrite)

    def update(self, rewrite: str = "") -> PullRequestResult:
        local = LocalHost(self.home)
        return update_pull_request(local, str(self.repo), BRANCH, TITLE, str(self.body), rewrite=rewrite)

    def there(self) -> str:
        """Return the commit of the branch at the remote."""
        return run_git(self.remote, "rev-parse", f"refs/heads/{BRANCH}")

    def commit(self, message: str, parent: str = "main") -> str:
        """Add a commit to the branch and return it."""
        commit = run_git(self.repo, "commit-tree", "main^{tree}", "-p", parent, "-m", message)
        run_git(self.repo, "update-ref", f"refs/heads/{BRANCH}", commit)
        return commit


@pytest.fixture
def bench(tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, repo, monkeypatch)


def test_gh_opens_a_draft_of_the_pushed_branch(bench: Bench) -> None:
    bench.program("gh", "echo Warning: 1 uncommitted change >&2; echo https://github.com/o/r/pull/7")
    opened = bench.open()
    assert opened.url == "https://github.com/o/r/pull/7" and opened.commands == []
    assert bench.there() == run_git(bench.repo, "rev-parse", BRANCH)
    args = [
        "pr",
        "create",
        "--draft",
        "--title",
        TITLE,
        "--body-file",
        str(bench.body),
        "--base",
        "main",
        "--head",
        BRANCH,
    ]
    assert bench.told("gh") == [[str(bench.repo), *args]]
    assert not (bench.repo / "evil").exists()


def test_an_existing_pull_request_gets_the_new_text(bench: Bench) -> None:
    exists = f'a pull request for branch "{BRANCH}" into branch "main" already exists:'
    bench.program("gh", f"""[ "$2" = edit ] && exec echo https://github.com/o/r/pull/7
        echo '{exists}' >&2; echo https://github.com/o/r/pull/7 >&2; exit 1""")  # fmt: skip
    opened = bench.open()
    assert opened.url == "https://github.com/o/r/pull/7" and "existing pull request" in opened.note
    assert bench.told("gh")[1] == [
        str(bench.repo),
        "pr",
        "edit",
        BRANCH,
        "--title",
        TITLE,
        "--body-file",
        str(bench.body),
    ]


@pytest.mark.parametrize("is_draft", [True, False])
def test_glab_opens_and_updates_a_merge_request_and_keeps_its_draft_state(bench: Bench, is_draft: bool) -> None:
    run_git(bench.repo, "config", "remote.origin.pushurl", str(bench.remote))
    run_git(bench.repo, "config", "remote.origin.url", "git@gitlab.example.com:o/r.git")
    draft = "true" if is_draft else "false"
    bench.program("gh", "exit 9")
    bench.program("glab", f"""[ "$2" = view ] && exec echo '{{"draft": {draft}}}'
        echo '!5 Two fixes (mngr/r/integrated)'; echo ' https://gitlab.example.com/o/r/-/merge_requests/5'""")  # fmt: skip
    assert bench.open().url == bench.update().url == "https://gitlab.example.com/o/r/-/merge_requests/5"
    create, _, update = bench.told("glab")
    text_args = ["--title", TITLE, "--description", "BODY"]
    args = [*text_args, "--source-branch", BRANCH, "--target-branch", "main"]
    assert create[1:] == ["mr", "create", "--draft", *args, "--yes"]
    assert update[1:] == ["mr", "update", BRANCH, *text_args, *(["--draft"] if is_draft else [])]


def test_without_the_forges_program_or_a_remote_only_the_commands_are_returned(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("git", "sh"):
        (bench.programs / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(bench.programs))
    opened = bench.open("a" * 40)
    push, create = opened.commands
    assert opened.url is None and "gh is not installed" in opened.note
    assert (
        push
        == f"git -C {bench.repo} push --force-with-lease=refs/heads/{BRANCH}:{'a' * 40} -- origin refs/heads/{BRANCH}:refs/heads/{BRANCH}"
    )
    assert create.startswith("gh pr create --draft --title 'Two fixes; $(touch evil)") and f"'{bench.body}'" in create
    assert run_git(bench.remote, "for-each-ref") == ""
    run_git(bench.repo, "config", "remote.origin.url", "https://who:secret@gitlab.com/o/r")
    shown = bench.update().commands[1]
    assert (
        shown.startswith(f"glab mr update {BRANCH} ") and f"""--description "$(cat '{bench.body}')" --draft""" in shown
    )
    bench.program("gh", "exit 0")
    run_git(bench.repo, "remote", "remove", "origin")
    assert "there is no remote 'origin'" in bench.open().note


@pytest.mark.web
def test_the_real_gh_opens_and_updates_a_draft(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_git(bench.repo, "config", "remote.origin.pushurl", str(bench.remote))
    run_git(bench.repo, "config", "remote.origin.url", f"https://{HOST}/o/r.git")
    with github(tmp_path) as hub:
        for name, value in hub.env.items():
            monkeypatch.setenv(name, value)
        opened = bench.open()
        assert opened.url == f"https://{HOST}/o/r/pull/1" and bench.there()
        (pull,) = hub.pulls
        assert (pull["headRefName"], pull["baseRefName"], pull["isDraft"]) == (BRANCH, "main", True)
        assert (pull["title"], pull["body"]) == (TITLE, bench.body.read_text())
        for send, text in ((bench.open, "Greener.\n"), (bench.update, "Greenest.\n")):
            bench.body.write_text(text)
            bench.commit(text, BRANCH)
            assert send().url == opened.url
            assert (hub.pulls, pull["body"]) == ([pull], text)
        monkeypatch.setenv("GH_ENTERPRISE_TOKEN", "another")
        with pytest.raises(MngrError, match=r"gh pr edit failed: .*401"):
            bench.update()


def test_a_push_never_overwrites_others_commits_and_a_rewrite_names_the_replaced_commit(bench: Bench) -> None:
    bench.program("gh", "echo https://github.com/o/r/pull/7")
    first = bench.commit("first")
    bench.open()
    second = bench.commit("second")
    with pytest.raises(MngrError, match=r"cannot push .* to origin: .*(non-fast-forward|fetch first)") as caught:
        bench.update()
    assert "somebody else pushed" in str(caught.value.hint) and bench.there() == first
    with pytest.raises(MngrError, match="stale info"):
        bench.update("b" * 40)
    assert bench.there() == first
    assert bench.update(first).url and bench.there() == second


def test_a_failing_forge_program_raises_an_error_with_a_hint(bench: Bench) -> None:
    bench.program("gh", "echo 'To get started with GitHub CLI, please run:  gh auth login' >&2; exit 4")
    with pytest.raises(MngrError, match=r"gh pr create failed: To get started .* gh auth login") as caught:
        bench.open()
    assert "gh auth status" in str(caught.value.hint)
    bench.program("gh", f"""echo 'no pull requests found for branch "{BRANCH}"' >&2; exit 1""")
    with pytest.raises(MngrError, match="no pull requests found") as caught:
        bench.update()
    assert "--pr" in str(caught.value.hint)
