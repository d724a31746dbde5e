"""Hosts on a Ray cluster: backups for lost nodes, runs that continue, and cleanup without leftovers."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from mngr.base.paths import Home
from mngr.host import host_store
from mngr.mapreduce.run_dir import RunDir
from tests.conftest import BIN_DIR, IS_FULL_SCALE, SEED, MngrProgram, run_git, wait_for
from tests.providers.ray.test_contract import settings
from tests.support.hosts.ray import ENGINES, Cluster
from tests.support.journal_file import read_json_rows

RUN = ("--", "sleep", "1000")


@pytest.fixture
def cluster_of(mngr: MngrProgram, ray: Cluster) -> Cluster:
    """The cluster that `mngr` uses."""
    mngr.env.update(settings(ray))
    return ray


def get_node(cluster: Cluster, host: str) -> str:
    """Return the node that has a host's directory."""
    return next(node for node in cluster.nodes if any(name.startswith(f"{host}-") for name in cluster.hosts(node)))


def has_backup(mngr: MngrProgram, cluster: Cluster, name: str, commit: str) -> bool:
    """True when the backup of an agent contains this commit."""
    return commit in list_backup_heads(cluster, mngr.get_agent(name)["id"])


def list_backup_heads(cluster: Cluster, agent: str) -> list[str]:
    """Return the latest commits in the backups of an agent."""
    paths = (cluster.dir / "hosts" / ".backups").rglob(f"{agent}/about.json")
    return [json.loads(path.read_text()).get("head") for path in paths]


def test_only_uncommitted_work_is_lost_with_a_node(mngr: MngrProgram, cluster_of: Cluster) -> None:
    ray = cluster_of
    foo = mngr.run_json("create", "foo@.ray", "player", "-m", "hello")["agents"][0]
    other = mngr.run_json("create", "other@.ray", *RUN)["agents"][0]
    mngr("wait", "foo")
    mngr("exec", "foo", "--", "sh", "-c", "echo new >f; git add f; git commit -qm work; echo draft >g")
    commit = mngr("exec", "foo", "--", "git", "rev-parse", "HEAD").out.strip()
    wait_for(lambda: has_backup(mngr, ray, "foo", commit), timeout=30)
    foo_node, other_node = get_node(ray, foo["host"]), get_node(ray, other["host"])
    assert foo_node != other_node  # hosts are spread over the nodes
    mngr("list")
    ray.kill(foo_node)
    wait_for(lambda: mngr.get_agent("foo")["state"] != "UNKNOWN", timeout=30)
    agents = {agent["name"]: (agent["state"], agent["state_reason"]) for agent in mngr.list_agents()}
    assert agents == {"foo": ("FAILED", "host gone"), "other": ("RUNNING", None)}
    assert f"mngr start @{foo['host']}.ray" in mngr("exec", "foo", "--", "true", code=6).err
    stderr = mngr("start", "foo").err
    assert f"foo is restored at commit {commit[:10]}" in stderr and "its uncommitted changes are lost" in stderr
    restored = mngr.get_agent("foo")
    assert (restored["id"], restored["host"], restored["branch"]) == (foo["id"], foo["host"], foo["branch"])
    assert get_node(ray, foo["host"]) == other_node
    assert mngr("exec", "foo", "--", "sh", "-c", "git rev-parse HEAD; git status --short; ls").out.split() == [
        commit, "README.md", "f", "src",
    ]  # fmt: skip
    mngr("message", "foo", "-m", "again", "--wait")
    texts = [row["text"] for row in mngr.run_json("transcript", "foo")["transcript"]]
    assert texts == ["hello", "ok: hello", "again", "ok: again"]
    mngr("destroy", "--force", "foo", "other")
    assert ray.ask()["actors"] == [] and ray.hosts(other_node) == []


def lose_foo(mngr: MngrProgram, ray: Cluster) -> str:
    """Create an agent `foo`, commit, back up the commit and kill its node. Return the commit."""
    foo = mngr.run_json("create", "foo@.ray", *RUN)["agents"][0]
    mngr("exec", "foo", "--", "git", "commit", "-q", "--allow-empty", "-m", "work")
    commit = mngr("exec", "foo", "--", "git", "rev-parse", "HEAD").out.strip()
    wait_for(lambda: has_backup(mngr, ray, "foo", commit), timeout=30)
    ray.kill(get_node(ray, foo["host"]))
    wait_for(lambda: mngr.get_agent("foo")["state"] != "UNKNOWN", timeout=30)
    return commit


def test_an_agent_destroyed_after_its_node_was_lost_can_be_restored_from_the_backup(
    mngr: MngrProgram, cluster_of: Cluster
) -> None:
    commit = lose_foo(mngr, cluster_of)
    assert f"foo is restored at commit {commit[:10]}" in mngr("destroy", "--force", "foo").err
    assert mngr.list_agents() == [] and cluster_of.ask()["actors"] == []
    mngr("undestroy", "foo", "--on", "@.ray")
    mngr("start", "foo")
    assert mngr("exec", "foo", "--", "git", "rev-parse", "HEAD").out.strip() == commit


@pytest.mark.sampled(6)
def test_a_slow_backup_actor_does_not_lose_backups(mngr: MngrProgram, cluster_of: Cluster) -> None:
    mngr("create", "here", *RUN)
    commit = lose_foo(mngr, cluster_of)
    [backup_actor] = cluster_of.actors("WorkBackup")
    os.kill(backup_actor, signal.SIGSTOP)
    try:
        assert "the backup actor did not answer within 10s" in mngr("destroy", "--force", "foo", "here", code=4).err
        assert [agent["name"] for agent in mngr.list_agents()] == ["foo"]  # the other agent is destroyed nevertheless
        stderr = mngr("gc", code=4).err
        assert "the backup actor did not answer within 10s" in stderr and "was created from this home" not in stderr
    finally:
        os.kill(backup_actor, signal.SIGCONT)
    assert f"foo is restored at commit {commit[:10]}" in mngr("start", "foo").err
    assert mngr("exec", "foo", "--", "git", "rev-parse", "HEAD").out.strip() == commit


@pytest.mark.sampled(4)
def test_hosts_of_the_same_name_in_two_homes_are_independent(mngr: MngrProgram, cluster_of: Cluster) -> None:
    other = ("--home", str(mngr.home.parent / "other"))
    on_same_node = ("-b", "resources.node:10.0.0.2=0.001")
    mngr("create", "foo@box.ray", *on_same_node, *RUN)
    mngr("stop", "@box.ray")
    bar = mngr.run_json(*other, "create", "bar@box.ray", *on_same_node, *RUN)["agents"][0]
    mngr(*other, "exec", "bar", "--", "git", "commit", "-q", "--allow-empty", "-m", "work")
    commit = mngr(*other, "exec", "bar", "--", "git", "rev-parse", "HEAD").out.strip()
    wait_for(lambda: commit in list_backup_heads(cluster_of, bar["id"]), timeout=30)
    mngr("start", "foo")
    wait_for(lambda: list_backup_heads(cluster_of, mngr.get_agent("foo")["id"]), timeout=30)
    assert [agent["name"] for agent in mngr.run_json(*other, "list")["agents"]] == ["bar"]
    mngr("destroy", "--force", "@box.ray")
    assert mngr(*other, "exec", "bar", "--", "git", "rev-parse", "HEAD").out.strip() == commit
    assert commit in list_backup_heads(cluster_of, bar["id"])
    mngr(*other, "destroy", "--force", "@box.ray")
    remaining = (cluster_of.dir / "hosts" / ".backups").glob("*")
    assert not {path.name for path in remaining} & {
        host_store.compute_owner_key(Home(home)) for home in (str(mngr.home), other[1])
    }


def test_a_run_continues_when_a_node_is_lost(mngr: MngrProgram, cluster_of: Cluster) -> None:
    items = [str(number) for number in range(100 if IS_FULL_SCALE else 4)]
    play = [
        {"run": "echo x >made.txt; git add made.txt; git commit -qm made || :"}, {"sleep": 4},
        {"write": {"path": "$MNGR_OUTPUT_DIR/r.txt", "content": "done"}}, "wait",
    ]  # fmt: skip
    words = ["map", *items, "--name", "r", "--agent", "player", "-p", "go {item}", "--output", "r.txt"]
    words += [
        "--on",
        "@.ray",
        "--agents-per-host",
        "10" if IS_FULL_SCALE else "2",
        "--max-agents",
        "40",
        "--canary",
        "0",
    ]
    words += ["--", json.dumps(play)]
    run = RunDir(str(mngr.repo), "r")

    def list_events(kind: str) -> list[dict[str, Any]]:
        return (
            [row for row in read_json_rows(run.journal) if row["type"] == kind] if os.path.exists(run.journal) else []
        )

    with subprocess.Popen([BIN_DIR / "mngr", *words], cwd=mngr.repo, env=mngr.env, stderr=subprocess.PIPE) as process:
        wait_for(lambda: len(list_events("prompted")) >= (20 if IS_FULL_SCALE else 3), timeout=120)
        host = list_events("host")[0]["host"]
        cluster_of.kill(get_node(cluster_of, host))
        stderr = process.communicate(timeout=900 if IS_FULL_SCALE else 120)[1].decode()
    assert process.returncode == 0, stderr
    assert [row["outcome"] for row in list_events("settled")] == ["done"] * len(items)
    assert any(row["why"] == "its host is gone" for row in list_events("remind")), stderr
    for slug in {row["slug"] for row in list_events("settled")}:
        assert run_git(Path(run.repo), "show", f"{run.ref_name(slug)}:made.txt") == "x"
        assert Path(run.task_path(slug, "outputs", "r.txt")).read_text() == "done"
    assert max(row["attempt"] for row in list_events("launch")) <= 2
    assert cluster_of.ask()["actors"] == [] and mngr.run_json("gc")["results"] == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("moment", range(50 if IS_FULL_SCALE else 4))
def test_gc_cleans_up_after_mngr_is_killed_at_any_moment(mngr: MngrProgram, cluster_of: Cluster, moment: int) -> None:
    rng = random.Random(f"{SEED} {moment}")
    steps = [
        ("create", "foo@box.ray", *RUN),
        ("stop", "@box.ray"),
        ("start", "@box.ray"),
        ("destroy", "--force", "@box.ray"),
    ]
    index = rng.randrange(len(steps))
    for words in steps[:index]:
        mngr(*words)
    process = subprocess.Popen(
        [BIN_DIR / "mngr", *steps[index]], cwd=mngr.repo, env=mngr.env, stderr=subprocess.DEVNULL
    )
    time.sleep(rng.random() * 2.5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    mngr("gc")
    hosts = [row["host"] for row in mngr.run_json("list", "--hosts")["hosts"] if row["provider"] == "ray"]
    if hosts:
        mngr("destroy", "--force", "@box.ray")
    assert mngr.run_json("gc")["results"] == []
    wait_for(lambda: cluster_of.ask()["actors"] == [])
    wait_for(lambda: cluster_of.processes("MNGR_HOST_TAG=") == [])
    assert cluster_of.hosts("n1") == cluster_of.hosts("n2") == []


@pytest.mark.sampled(2)
def test_an_interrupted_stop_loses_no_file(mngr: MngrProgram, cluster_of: Cluster) -> None:
    mngr("create", "foo@box.ray", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo draft >g")
    files = mngr.home / "hosts" / "ray" / "box.files"
    with subprocess.Popen([BIN_DIR / "mngr", "stop", "@box.ray"], cwd=mngr.repo, env=mngr.env) as process:
        wait_for(files.exists)
        process.kill()
    mngr("gc")
    assert [row["state"] for row in mngr.run_json("list", "--hosts")["hosts"] if row["host"] == "box"] == ["STOPPED"]
    mngr("start", "foo")
    assert mngr("exec", "foo", "--", "cat", "g").out == "draft\n" and not files.exists()


def make_stop_archive(mngr: MngrProgram, cluster: Cluster, host: str) -> Path:
    """Create the archive that an interrupted stop leaves behind."""
    files = mngr.home / "hosts" / "ray" / f"{host}.files"
    host_dir = next(cluster.files(get_node(cluster, host)).glob(f"{host}-*"))
    subprocess.run(["tar", "-cf", files, "--exclude=./.tmp", "-C", host_dir, "."], check=True)
    return files


@pytest.mark.sampled(4)
def test_the_archive_of_a_failed_stop_does_not_replace_newer_files(mngr: MngrProgram, cluster_of: Cluster) -> None:
    foo = mngr.run_json("create", "foo@box.ray", *RUN)["agents"][0]
    mngr("exec", "foo", "--", "sh", "-c", "echo old >g")
    files = make_stop_archive(mngr, cluster_of, "box")
    mngr("exec", "foo", "--", "sh", "-c", "echo new >g")
    cluster_of.ask("reset")  # ends all actors but no node
    wait_for(lambda: mngr.get_agent("foo")["host_state"] == "STOPPED", timeout=30)
    mngr("start", "foo")
    assert mngr("exec", "foo", "--", "cat", "g").out == "new\n" and not files.exists()
    assert mngr.get_agent("foo")["id"] == foo["id"]


@pytest.mark.sampled(4)
def test_the_archive_is_used_when_the_host_is_being_removed(mngr: MngrProgram, cluster_of: Cluster) -> None:
    mngr("create", "foo@box.ray", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo draft >g")
    make_stop_archive(mngr, cluster_of, "box")
    cluster_of.ask("leave")
    mngr("start", "@box.ray")
    mngr("start", "foo")
    assert mngr("exec", "foo", "--", "cat", "g").out == "draft\n"


@pytest.mark.sampled(4)
def test_gc_finishes_a_start_that_was_killed_at_its_end(mngr: MngrProgram, cluster_of: Cluster) -> None:
    mngr("create", "foo@box.ray", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo draft >g")
    mngr("stop", "@box.ray")
    facts = mngr.home / "hosts" / "ray" / "box.json"
    stopped = json.loads(facts.read_text())
    mngr("start", "@box.ray")
    facts.write_text(json.dumps({**stopped, "doing": "start", "owner": None}))
    assert [row["what"] for row in mngr.run_json("gc")["results"]] == ["interrupted start"]
    mngr("start", "foo")
    assert mngr("exec", "foo", "--", "cat", "g").out == "draft\n"
    facts.write_text(json.dumps(stopped))
    mngr("destroy", "--force", "@box.ray")
    assert cluster_of.ask()["actors"] == [] and cluster_of.hosts("n1") == cluster_of.hosts("n2") == []


@pytest.mark.sampled(4)
def test_a_forgotten_host_is_used_again_with_its_facts(mngr: MngrProgram, cluster_of: Cluster) -> None:
    mngr("create", "foo@box.ray", "-b", "cpus=2", *RUN)
    facts = mngr.home / "hosts" / "ray" / "box.json"
    engine_facts = json.loads(facts.read_text())["engine"]
    other = ("--home", str(mngr.home.parent / "other"))
    mngr(*other, "create", "guest@box.ray", *RUN)
    assert "another home" in mngr(*other, "stop", "@box.ray", code=1).err
    facts.unlink()
    mngr("create", "bar@box.ray", *RUN)
    assert json.loads(facts.read_text())["engine"] == engine_facts
    mngr("stop", "@box.ray")
    mngr("start", "foo")
    assert mngr("exec", "foo", "--", "echo", "there").out == "there\n"
    facts.unlink()
    mngr("create", "baz@box.ray", *RUN)
    mngr("destroy", "--force", "@box.ray")
    assert cluster_of.ask()["actors"] == [] and cluster_of.hosts("n1") == cluster_of.hosts("n2") == []


@pytest.mark.sampled(4)
@pytest.mark.hosts  # it needs the library of Ray, and no cluster
def test_a_silent_cluster_counts_as_unreachable(mngr: MngrProgram) -> None:
    mngr.env["MNGR__PROVIDERS__RAY__PYTHON"] = str(ENGINES / "ray/bin/python")
    with socket.create_server(("127.0.0.1", 0)) as silent_server:
        mngr.env["MNGR__PROVIDERS__RAY__ADDRESS"] = f"127.0.0.1:{silent_server.getsockname()[1]}"
        assert "cannot be reached: no answer within 10s" in mngr("create", "foo@.ray", *RUN, code=6).err


@pytest.mark.sampled(4)
def test_an_unreachable_cluster_is_reported_within_seconds(mngr: MngrProgram, cluster_of: Cluster) -> None:
    for setting, variable in (("auto", "10.0.0.77:6379"), ("10.0.0.77:6379", "")):
        mngr.env.update(MNGR__PROVIDERS__RAY__ADDRESS=setting, RAY_ADDRESS=variable)
        started = time.monotonic()
        result = mngr("create", "foo@.ray", *RUN, code=6)
        assert "Ray at 10.0.0.77:6379 cannot be reached" in result.err and "ray status" in result.err
        assert time.monotonic() - started < 15
    mngr.env["MNGR__PROVIDERS__RAY__PYTHON"] = str(BIN_DIR / "python")
    assert "pip install ray" in mngr("create", "foo@.ray", *RUN, code=1).err
    assert "no option 'cpu'" in mngr("create", "foo@.ray", "-b", "cpu=1", *RUN, code=2).err
