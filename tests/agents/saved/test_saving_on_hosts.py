"""Tests that agents on remote hosts are restored, moved and copied byte for byte, over a real ssh."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mngr import AgentSpec, Fleet
from tests.agents.saved.test_save_restore import (
    _names,
    _plant,
    _trees,
    commit,
    make_nasty,
    state,
    tree,
    write,
)
from tests.conftest import IS_FULL_SCALE, MngrProgram, run_git
from tests.support.hosts.sshd import Farm

pytestmark = pytest.mark.hosts


@pytest.fixture
def fleet(mngr: MngrProgram, farm: Farm, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setenv("MNGR__PROVIDERS__SSH__CONFIG", str(farm.config))
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    return Fleet(str(mngr.home), cwd=str(mngr.repo))


def make(fleet: Fleet, name: str = "foo@h1", **options: Any) -> Path:
    """Create an agent and return its work dir, which this machine can read as well."""
    return Path(fleet.create(AgentSpec(address=name, command=["true"], **options)).work_dir)


def away(fleet: Fleet, *names: str) -> list[Any]:
    """Destroy the agents, assert success and return the outcomes."""
    outcomes = fleet.destroy(list(names), force=True)
    assert all(outcome.ok for outcome in outcomes), outcomes
    return outcomes


def back(fleet: Fleet, name: str = "foo", **options: Any) -> Path:
    """Undestroy the agent, assert success and return its work dir."""
    (outcome,) = fleet.undestroy([name], **options)
    assert outcome.ok, (outcome.error, outcome.hint)
    return Path(fleet.get(outcome.name).work_dir)


def read_repo_facts(work: Path) -> tuple[str, ...]:
    """Return the refs, stashes and settings of an agent's own repository."""
    return (
        run_git(work, "for-each-ref"),
        run_git(work, "stash", "list"),
        run_git(work, "config", "--local", "--list"),
    )


def make_full(work: Path) -> None:
    """Create stashes, refs of all kinds, a commit that only the reflog has, and a complicated work tree."""
    for number in (1, 2):
        write(work, "README.md", b"stashed %d\n" % number)
        run_git(work, "-c", "user.name=A", "-c", "user.email=a@example.invalid", "stash", "-q")
    run_git(work, "branch", "extra")
    run_git(work, "tag", "-a", "-m", "t", "v1")
    run_git(work, "update-ref", "refs/odd/place", "HEAD")
    run_git(work, "config", "core.editor", "true")
    commit(work, "--allow-empty", "-m", "only the reflog has this")
    run_git(work, "reset", "-q", "--hard", "HEAD~1")
    make_nasty(work)
    (work / "noise.log").unlink()


def test_undestroy_on_a_host_restores_a_complicated_mirror_byte_for_byte(
    fleet: Fleet, farm: Farm, mngr: MngrProgram
) -> None:
    work = make(fleet)
    make_full(work)
    lost = run_git(work, "rev-parse", "HEAD@{2}")
    before = state(work), read_repo_facts(work)
    away(fleet, "foo")
    assert not work.exists() and not list((farm.home("h1") / ".mngr" / "agents").iterdir())
    assert not list((farm.home("h1") / ".mngr" / "names").iterdir())
    assert back(fleet) == work
    assert (state(work), read_repo_facts(work)) == before
    run_git(work, "fsck", "--strict", "--no-dangling")
    assert run_git(work, "log", "-1", "--format=%s", lost) == "only the reflog has this"
    assert not (work / ".git" / "objects" / "info" / "alternates").exists()
    assert list((mngr.home / "cache" / "stage").iterdir()) == []


def test_migrate_over_two_hosts_and_back_keeps_everything(fleet: Fleet, farm: Farm, mngr: MngrProgram) -> None:
    run_git(mngr.repo, "branch", "other")
    run_git(mngr.repo, "config", "user.name", "Somebody")
    work = make(fleet, "foo")
    make_nasty(work)
    (work / "noise.log").unlink()
    before = state(work)
    agent_id = fleet.get("foo").id
    for address, home in (
        ("@h1", farm.home("h1")),
        ("foo@h2.ssh", farm.home("h2")),
        ("@local", mngr.home.parent),
    ):
        view = fleet.migrate("foo", address)
        work_dir = Path(view.work_dir)
        assert (view.id, view.name, view.branch) == (agent_id, "foo", "mngr/foo")
        assert work_dir.is_relative_to(home) and state(work_dir) == before
        assert run_git(work_dir, "branch", "--format=%(refname:short)").split() == ["main", "mngr/foo", "other"]
        assert run_git(work_dir, "config", "user.name") == "Somebody"
        assert [agent.name for agent in fleet.list().agents] == ["foo"] and fleet.list_trash() == []
    assert [list((farm.home(name) / ".mngr" / "work").iterdir()) for name in ("h1", "h2")] == [[], []]
    run_git(work_dir, "fsck", "--strict", "--no-dangling")
    assert run_git(mngr.repo, "worktree", "list").count("\n") == 0
    assert fleet.gc() == []


def test_a_clone_on_another_host_has_the_same_state_and_its_own_branch(fleet: Fleet, mngr: MngrProgram) -> None:
    work = make(fleet, "foo")
    make_nasty(work)
    (work / "noise.log").unlink()
    before = state(work)
    for address, host in (("bar@h1", "h1"), ("baz@h2", "h2"), ("qux@local", "local")):
        view = fleet.clone("foo" if address == "bar@h1" else "bar", address, start=False)
        clone_dir, name = Path(view.work_dir), address.partition("@")[0]
        assert (view.name, view.host, view.branch) == (name, host, f"mngr/{name}")
        after = state(clone_dir)
        assert {key: after[key] for key in before if key != "branch"} == {
            key: before[key] for key in before if key != "branch"
        }
        assert after["branch"] == f"refs/heads/mngr/{name}\n"
    assert "mngr/bar" not in run_git(mngr.repo, "branch", "--list")  # Each clone has its own repository.


def test_a_snapshot_from_one_host_can_be_restored_on_another(fleet: Fleet) -> None:
    work = make(fleet)
    make_nasty(work)
    (work / "noise.log").unlink()
    before = state(work)
    fleet.create_snapshot("foo", "kept")
    away(fleet, "foo")
    view = fleet.restore_snapshot("kept", "@h2", start=False)
    assert (view.name, view.host) == ("foo", "h2")
    assert state(Path(view.work_dir))["tree"] == before["tree"]
    view = fleet.restore_snapshot("kept", "bar@local", start=False)
    assert state(Path(view.work_dir))["status"] == before["status"]


def test_undestroy_can_restore_an_agent_of_an_unreachable_host_elsewhere(
    fleet: Fleet, farm: Farm, mngr: MngrProgram
) -> None:
    work = make(fleet)
    write(work, "draft", b"mine")
    away(fleet, "foo")
    farm.cut("h1")
    result = mngr("undestroy", "foo", code=6)
    assert "foo was on h1" in result.err and "mngr undestroy foo --on @HOST" in result.err
    restored_dir = back(fleet, on="@h2")
    assert restored_dir.is_relative_to(farm.home("h2")) and (restored_dir / "draft").read_bytes() == b"mine"
    assert mngr("undestroy", "foo", "--on", "h2", code=2).err.startswith("Error: 'h2' does not name a host")


def test_undestroy_restores_a_copy_and_destroy_keeps_a_directory_that_is_used_in_place(
    fleet: Fleet, farm: Farm, tmp_path: Path
) -> None:
    work = make(fleet, transfer="copy")
    write(work, "odd\nname", b"\r\n", 0o600)
    (work / "empty").mkdir()
    (work / "README.md").unlink()
    os.chmod(work, 0o555)
    before = tree(work)
    away(fleet, "foo")
    assert back(fleet) == work
    assert tree(work) == before and work.stat().st_mode & 0o777 == 0o555
    plain = farm.home("h1") / "plain"
    plain.mkdir()
    write(plain, "mine", b"m")
    fleet.create(AgentSpec(address="bar@h1", command=["true"], transfer="none", source=f"@h1:{plain}"))
    away(fleet, "bar")
    assert tree(plain) == {"mine": ("file", 0o644, b"m")}
    assert back(fleet, "bar") == plain
    plain.rename(plain.with_name("moved"))
    away(fleet, "bar")
    assert "the work dir of bar no longer exists" in (fleet.undestroy(["bar"])[0].error or "")


def test_files_that_the_host_ignores_are_not_transferred(fleet: Fleet, farm: Farm, mngr: MngrProgram) -> None:
    """The host's ignore rules apply, not those of this machine."""
    (mngr.home.parent / ".config" / "git").mkdir(parents=True)
    (mngr.home.parent / ".config" / "git" / "ignore").write_text("*.keep\n")
    run_git(mngr.repo, "config", "--global", "core.excludesFile", str(mngr.home.parent / "ignored"))
    (mngr.home.parent / "ignored").write_text("kept*\n")
    (farm.home("h1") / "rules").write_text("*.junk\n")
    with (farm.home("h1") / ".gitconfig").open("a") as file:
        file.write(f"[core]\n\texcludesFile = {farm.home('h1')}/rules\n")
    work = make(fleet)
    write(work, "build/deep/big.bin", b"x" * 200_000)
    write(work, "some dir*/x.junk", b"x" * 10)
    write(work, "y.junk", b"x")
    for number in range(1500):  # more paths than fit on a command line
        write(work, f"package/{'long' * 20}{number}/build/x.pyc", b"x")
    write(work, "z.keep", b"ours ignore this")
    write(work, "kept too", b"and this")
    (outcome,) = away(fleet, "foo")
    assert outcome.extra["ignored_bytes"] >= 200_000
    assert not (Path(fleet.list_trash()[0].trash_dir) / "work.tar").stat().st_size > 100_000
    back(fleet)
    names = set(tree(work))
    assert {"z.keep", "kept too"} <= names and not {"y.junk", "build", "some dir*/x.junk"} & names
    assert not any(name.endswith(".pyc") for name in names)


def test_undestroy_restores_a_worktree_on_a_host_with_its_own_repository(
    fleet: Fleet, farm: Farm, mngr: MngrProgram
) -> None:
    origin = farm.home("h1") / "origin"
    shutil.copytree(mngr.repo, origin)
    work = make(fleet, source=f"@h1:{origin}")
    assert (work / ".git").is_file()
    commit(work, "--allow-empty", "-m", "only the reflog has this")
    run_git(work, "reset", "-q", "--hard", "HEAD~1")
    lost = run_git(work, "rev-parse", "HEAD@{1}")
    make_nasty(work)
    (work / "noise.log").unlink()
    before = state(work)
    view = fleet.clone("foo", "bar@local", start=False)
    assert state(Path(view.work_dir))["tree"] == before["tree"]
    away(fleet, "foo")
    assert not work.exists() and run_git(origin, "worktree", "list").count("\n") == 0
    assert run_git(origin, "branch", "--list", "mngr/foo") == "  mngr/foo".strip()  # No other branch has its commit.
    assert back(fleet) == work
    assert state(work) == before and (work / ".git").is_dir()
    run_git(work, "fsck", "--strict", "--no-dangling")
    assert run_git(work, "log", "-1", "--format=%s", lost) == "only the reflog has this"


def test_a_repository_that_borrows_objects_is_saved_completely(fleet: Fleet, farm: Farm) -> None:
    work = make(fleet)
    lender = farm.home("h1") / "lender.git"
    shutil.copytree(work / ".git", lender)
    commit(work, "--allow-empty", "-m", "mine")
    for path in (work / ".git" / "objects").iterdir():
        if len(path.name) == 2:
            for file in path.iterdir():
                if (lender / "objects" / path.name / file.name).exists():
                    file.unlink()
    (work / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (work / ".git" / "objects" / "info" / "alternates").write_text(f"{lender}/objects\n")
    write(work, "draft", b"mine")
    before = state(work)
    away(fleet, "foo")
    shutil.rmtree(lender)
    back(fleet)
    assert state(work) == before
    run_git(work, "fsck", "--strict", "--no-dangling")


def test_migrate_moves_the_conversation_and_the_agents_variables_but_not_the_hosts(
    fleet: Fleet, farm: Farm, mngr: MngrProgram
) -> None:
    mngr("create", "foo@h1", "player", "--env", "GIVEN=it's $HOME", "--env", "TZ=Asia/Tokyo")
    mngr("message", "foo", "-m", "hello", "--wait")
    print_variables = ("exec", "foo", "--", "sh", "-c", 'printf "%s|" "$HOME" "$GIVEN" "$TZ" "$MNGR_AGENT_DIR"')
    before = mngr(*print_variables).out
    mngr("migrate", "foo", "@h2")
    assert mngr.get_agent("foo")["state"] == "WAITING"
    assert mngr(*print_variables).out == before.replace(str(farm.home("h1")), str(farm.home("h2")))
    mngr("message", "foo", "-m", "again", "--wait")
    texts = [row["text"] for row in mngr.run_json("transcript", "foo")["transcript"]]
    assert texts == ["hello", "ok: hello", "again", "ok: again"]
    types = [row["type"] for row in mngr.run_json("events", "foo")["events"]]
    assert types[0] == "created" and "migrate" in types


@settings(
    max_examples=40 if IS_FULL_SCALE else 3,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    first=st.dictionaries(_names, _trees, max_size=4),
    then=st.dictionaries(_names, _trees, max_size=4),
    stage=st.booleans(),
)
def test_undestroy_on_a_host_restores_any_tree(
    fleet: Fleet, first: dict[str, Any], then: dict[str, Any], stage: bool
) -> None:
    if any(agent.name == "any" for agent in fleet.list().agents):
        away(fleet, "any")
    for trashed in fleet.list_trash():
        shutil.rmtree(trashed.trash_dir)
    work = make(fleet, "any@h1")
    area = work / "area"
    area.mkdir()
    for name, description in first.items():
        _plant(area, name, description)
    run_git(work, "add", "-A", "-f")
    commit(work, "-m", "first", "--allow-empty")
    shutil.rmtree(area)
    area.mkdir()
    for name, description in then.items():
        _plant(area, name, description)
    if stage:
        run_git(work, "add", "-A", "-f")
    before = state(work)
    away(fleet, "any")
    assert back(fleet, "any") == work
    assert state(work) == before
