"""Slurm jobs as hosts, on a real cluster of three nodes: how mngr reacts to Slurm's own actions."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from mngr.base import time_format
from mngr.mapreduce.run_dir import RunDir
from mngr.testkit.contract.mngr_program import IS_FULL_SCALE, BackgroundProgram, MngrProgram, wait_for
from tests.conftest import SEED
from tests.providers.slurm.test_contract import settings
from tests.support.hosts.place import naming
from tests.support.hosts.slurm import Slurm
from tests.support.journal_file import read_json_rows

RUN = ("--", "sleep", "1000")
OWN = ("sh", "-c", 'cat "$MNGR_OUTPUT_DIR/own"')
PLAY = [
    {"run": "echo x >made.txt"}, {"sleep": 4},
    {"run": "echo x >made.txt; rm -f .git/index.lock; git add made.txt; git commit -qm made || :"},
    {"write": {"path": "$MNGR_OUTPUT_DIR/r.txt", "content": "done"}}, "wait",
]  # fmt: skip


@pytest.fixture
def nodes(mngr: MngrProgram, slurm: Slurm) -> Slurm:
    """The cluster that `mngr` uses."""
    mngr.env.update(settings(slurm))
    return slurm


def list_host_processes(slurm: Slurm) -> list[int]:
    """Return the processes of hosts on any node: a host's directory is in their arguments or variables."""
    return naming(slurm.shared / "hosts") + naming(slurm.shared / "hosts", "environ")


def list_job_ids(slurm: Slurm) -> list[str]:
    """Return the ids of the jobs that have not ended, with each element of an array."""
    return sorted(slurm.run("squeue", "-h", "-r", "-o", "%i").splitlines())


def list_host_dirs(slurm: Slurm) -> list[Path]:
    """Return the directories of the hosts."""
    return sorted((slurm.shared / "hosts").glob("*/*"))


def get_node(slurm: Slurm, job: str) -> str:
    return slurm.run("squeue", "-h", "-j", job, "-o", "%N")


def get_job(mngr: MngrProgram, host: str) -> str:
    """Return the job of a host, as mngr has recorded it."""
    return str(json.loads((mngr.home / f"hosts/slurm/{host}.json").read_text())["engine"]["job"])


def get_host_states(mngr: MngrProgram) -> dict[str, str]:
    rows = mngr.run_json("list", "--hosts")["hosts"]
    return {row["host"]: row["state"] for row in rows if row["provider"] == "slurm"}


def assert_nothing_is_left(mngr: MngrProgram, slurm: Slurm) -> None:
    wait_for(lambda: list_job_ids(slurm) == [], timeout=60)  # a job on a lost node needs this long to end
    wait_for(lambda: list_host_processes(slurm) == [], timeout=10)
    assert list_host_dirs(slurm) == [] and get_host_states(mngr) == {}
    assert mngr("gc").err == "nothing to clean up\n"


@pytest.mark.sampled(6)
def test_a_cancelled_job_ends_its_agents_with_term_and_leaves_no_process(mngr: MngrProgram, nodes: Slurm) -> None:
    mngr(
        "create",
        "foo@box.slurm",
        "--",
        "sh",
        "-c",
        'trap "echo told >word; exit 3" TERM; while :; do sleep 0.1; done',
    )
    mngr(
        "create",
        "deaf@box.slurm",
        "--",
        "sh",
        "-c",
        'trap "" TERM HUP; setsid sleep 2000 & while :; do sleep 0.1; done',
    )
    mngr("list")
    assert list_host_processes(nodes)
    nodes.run("scancel", get_job(mngr, "box"))
    wait_for(lambda: list_job_ids(nodes) == [], timeout=30)
    wait_for(lambda: list_host_processes(nodes) == [], timeout=2)
    assert [agent["state"] for agent in mngr.list_agents()] == ["STOPPED", "STOPPED"] and get_host_states(mngr) == {
        "box": "STOPPED"
    }
    assert "mngr start @box.slurm" in mngr("exec", "foo", "--", "true", code=6).err
    mngr("start", "foo")
    assert mngr("exec", "foo", "--", "cat", "word").out == "told\n"
    mngr("destroy", "--force", "@box.slurm")
    assert_nothing_is_left(mngr, nodes)


@pytest.mark.sampled(4)
def test_list_hosts_shows_when_a_job_reaches_its_time_limit(mngr: MngrProgram, nodes: Slurm) -> None:
    mngr("create", "foo@box.slurm", "-b", "time=2:00:00", *RUN)
    (row,) = [row for row in mngr.run_json("list", "--hosts")["hosts"] if row["host"] == "box"]
    assert 7000 < time_format.parse_timestamp(row["ends_at"]) - time.time() <= 7200
    assert row["ends_at"] in mngr("list", "--hosts").out
    mngr("create", "bar@free.slurm", *RUN)
    (row,) = [row for row in mngr.run_json("list", "--hosts")["hosts"] if row["host"] == "free"]
    assert row["ends_at"] is None


@pytest.mark.full
def test_a_host_that_reached_its_time_limit_can_be_started_again(mngr: MngrProgram, nodes: Slurm) -> None:
    mngr("create", "foo@box.slurm", "player", "-b", "time=1", "-m", "hello")  # Slurm counts in minutes
    mngr("wait", "foo")
    mngr("exec", "foo", "--", "sh", "-c", "echo draft >file")
    wait_for(lambda: list_job_ids(nodes) == [], timeout=150)
    assert list_host_processes(nodes) == [] and get_host_states(mngr) == {"box": "STOPPED"}
    assert "its job reached its time limit" in mngr("exec", "foo", "--", "true", code=6).err
    assert mngr.get_agent("foo")["state"] == "STOPPED"
    mngr("start", "foo")
    assert mngr("exec", "foo", "--", "cat", "file").out == "draft\n"
    stopped = [row["data"] for row in mngr.run_json("events", "foo")["events"] if row["type"] == "stopped"]
    assert stopped == [{"reason": "time limit of the job"}]
    mngr("message", "foo", "-m", "again", "--wait")
    assert [row["text"] for row in mngr.run_json("transcript", "foo")["transcript"]][-1] == "ok: again"
    mngr("destroy", "--force", "@box.slurm")
    assert_nothing_is_left(mngr, nodes)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("requeue", ["--requeue", "--no-requeue"])
def test_no_file_is_lost_with_a_node(mngr: MngrProgram, nodes: Slurm, requeue: str) -> None:
    mngr("create", "foo@box.slurm", "player", "-b", f"args+={requeue}", "-m", "hello")
    mngr("wait", "foo")
    mngr("exec", "foo", "--", "sh", "-c", "echo draft >file")
    mngr("list")
    job = get_job(mngr, "box")
    lost_node = get_node(nodes, job)
    nodes.crash_node(lost_node)
    if requeue == "--requeue":
        wait_for(lambda: nodes.run("squeue", "-h", "-j", job, "-o", "%t", check=False) != "R", timeout=30)
        wait_for(lambda: get_node(nodes, job) not in ("", lost_node), timeout=60)
        wait_for(lambda: get_host_states(mngr) == {"box": "RUNNING"}, timeout=20)
        agent = mngr.get_agent("foo")
        assert (agent["state"], agent["state_reason"]) == ("FAILED", "lost")
    else:
        wait_for(lambda: list_job_ids(nodes) == [], timeout=30)
        assert "its node failed" in mngr("exec", "foo", "--", "true", code=6).err
        assert get_host_states(mngr) == {"box": "STOPPED"} and mngr.get_agent("foo")["state"] == "STOPPED"
    mngr("start", "foo")
    assert (get_job(mngr, "box") == job) is (requeue == "--requeue")
    assert mngr("exec", "foo", "--", "cat", "file").out == "draft\n"
    mngr("message", "foo", "-m", "again", "--wait")
    texts = [row["text"] for row in mngr.run_json("transcript", "foo")["transcript"]]
    assert texts == ["hello", "ok: hello", "again", "ok: again"]
    mngr("destroy", "--force", "@box.slurm")
    assert_nothing_is_left(mngr, nodes)


@pytest.mark.sampled(4)
def test_create_waits_for_a_pending_job_and_reports_the_reason(mngr: MngrProgram, nodes: Slurm) -> None:
    try:
        with BackgroundProgram(mngr, "create", "foo@.slurm", "-b", "partition=tiny", *RUN) as waiting:
            wait_for(lambda: "is pending: PartitionDown" in waiting.read_stderr(), timeout=30)
            nodes.run("scontrol", "update", "PartitionName=tiny", "State=UP")
            assert waiting.wait_for_end().code == 0
    finally:
        nodes.run("scontrol", "update", "PartitionName=tiny", "State=DOWN")
    assert get_node(nodes, list_job_ids(nodes)[0]) == "n3" and mngr.get_agent("foo")["state"] == "RUNNING"


@pytest.mark.sampled(4)
def test_a_job_that_stays_pending_is_cancelled_after_the_wait(mngr: MngrProgram, nodes: Slurm) -> None:
    mngr.env["MNGR__PROVIDERS__SLURM__WAIT"] = "1s"
    result = mngr("create", "foo@.slurm", "-b", "partition=tiny", *RUN, code=5)
    assert "was still pending after" in result.err and "PartitionDown" in result.err and "wait longer" in result.err
    assert_nothing_is_left(mngr, nodes)


@pytest.mark.sampled(4)
def test_a_rejected_job_is_reported_and_leaves_nothing(mngr: MngrProgram, nodes: Slurm) -> None:
    result = mngr("create", "foo@.slurm", "-b", "partition=none", *RUN, code=1)
    assert "Slurm rejected the job: Invalid partition" in result.err
    assert "Hint: compare the options of the host with the cluster: sinfo" in result.err
    assert "no option 'cpu'" in mngr("create", "foo@.slurm", "-b", "cpu=1", *RUN, code=2).err
    assert mngr.list_agents() == []
    assert_nothing_is_left(mngr, nodes)
    mngr.env["MNGR__PROVIDERS__SLURM__THROUGH"] = '["env", "PATH=/nowhere", "/bin/sh", "-c"]'
    result = mngr("create", "foo@.slurm", *RUN, code=1)
    assert "the Slurm program sbatch is not installed" in result.err and "through" in result.err


@pytest.mark.sampled(6)
def test_an_unreachable_controller_is_reported_within_seconds(mngr: MngrProgram, nodes: Slurm, tmp_path: Path) -> None:
    mngr("create", "foo@box.slurm", *RUN)
    mngr("list")
    text = Path(nodes.env["SLURM_CONF"]).read_text()
    (tmp_path / "away.conf").write_text(re.sub(r"SlurmctldPort=\d+", "SlurmctldPort=1", text))
    mngr.env["SLURM_CONF"] = str(tmp_path / "away.conf")
    started = time.monotonic()
    result = mngr("create", "bar@.slurm", *RUN, code=6)
    assert time.monotonic() - started < 15  # Slurm itself takes 9 of them
    assert "Slurm does not answer: Unable to contact slurm controller" in result.err
    listing = mngr.run_json("list")
    assert [row["host"] for row in listing["errors"]] == ["box"]
    assert [(agent["name"], agent["state"]) for agent in listing["agents"]] == [("foo", "UNKNOWN")]
    mngr.env["SLURM_CONF"] = nodes.env["SLURM_CONF"]
    mngr("gc")  # it was unknown whether bar's job exists
    mngr("destroy", "--force", "@box.slurm")
    assert_nothing_is_left(mngr, nodes)


@pytest.mark.sampled(4)
def test_a_host_without_its_registry_file_is_found_again_with_its_options(mngr: MngrProgram, nodes: Slurm) -> None:
    mngr("create", "foo@box.slurm", "-b", "shared=false", *RUN)
    (mngr.home / "hosts/slurm/box.json").unlink()
    mngr("create", "bar@box.slurm", *RUN)
    assert "on the disk of its node" in mngr("stop", "@box.slurm", code=1).err
    assert {row["state"] for row in mngr.run_json("list")["agents"]} == {"RUNNING"}
    assert mngr("exec", "foo", "--", "echo", "fine").out == "fine\n"
    mngr("destroy", "--force", "@box.slurm")
    assert_nothing_is_left(mngr, nodes)


def test_gc_reports_an_unknown_job_and_directory_with_removal_commands(mngr: MngrProgram, nodes: Slurm) -> None:
    mngr("create", "foo@box.slurm", *RUN)
    for name in ("json", "seen"):
        (mngr.home / f"hosts/slurm/box.{name}").unlink(missing_ok=True)
    stderr = mngr("gc").err
    assert "the job box was created from this home, but mngr has no record of it" in stderr
    removals = re.findall("if you do not need it: (.+)", stderr)
    assert removals == [f"scancel {list_job_ids(nodes)[0]}", shlex.join(["rm", "-r", str(list_host_dirs(nodes)[0])])]
    nodes.run(*removals[0].split())
    wait_for(lambda: list_job_ids(nodes) == [], timeout=20)
    subprocess.run(shlex.split(removals[1]), check=True)
    mngr("gc")
    assert list_host_processes(nodes) == [] and mngr("gc").err == "nothing to clean up\n"


@pytest.mark.sampled(4)
def test_an_interrupted_destroy_is_finished_before_the_host_is_created_again(mngr: MngrProgram, nodes: Slurm) -> None:
    mngr("create", "foo@box.slurm", *RUN)
    mngr("destroy", "--force", "foo")
    facts_file = mngr.home / "hosts/slurm/box.json"
    facts_file.with_suffix(".ending").write_bytes(facts_file.read_bytes())  # the state after a killed destroy
    (old_job,) = list_job_ids(nodes)
    mngr("undestroy", "foo")
    assert mngr("gc").err == "nothing to clean up\n" and old_job not in list_job_ids(nodes)
    mngr("start", "foo")
    assert mngr.get_agent("foo")["state"] == "RUNNING" and len(list_host_dirs(nodes)) == 1


@pytest.mark.sampled(4)
def test_hosts_of_one_run_are_submitted_as_a_job_array(mngr: MngrProgram, nodes: Slurm) -> None:
    words = [
        "map",
        *"abcd",
        "--name",
        "r",
        "--on",
        ".slurm",
        "--canary",
        "0",
        "--keep-hosts",
        "--agents-per-host",
        "0",
    ]
    mngr(
        *words,
        "--",
        "sh",
        "-c",
        "echo $MNGR_AGENT_NAME >$MNGR_OUTPUT_DIR/own; sleep 1",
    )
    jobs = {host: get_job(mngr, host) for host in get_host_states(mngr)}
    assert sorted(jobs.values()) == list_job_ids(nodes) and len(set(jobs.values())) == 4
    assert len({job.partition("_")[0] for job in jobs.values()}) < 4, jobs
    array_hosts = [host for host, job in jobs.items() if "_" in job]
    host, other = array_hosts[:2]
    (agent,) = [row["name"] for row in mngr.list_agents() if row["host"] == host]
    (other_agent,) = [row["name"] for row in mngr.list_agents() if row["host"] == other]
    mngr("stop", f"@{host}.slurm")
    assert list_job_ids(nodes) == sorted(set(jobs.values()) - {jobs[host]})  # the other jobs still run
    mngr("start", f"@{host}.slurm")
    assert get_job(mngr, host) != jobs[host] and len(list_job_ids(nodes)) == 4
    assert mngr("exec", agent, "--", *OWN).out == f"{agent}\n"
    nodes.run("scontrol", "requeue", jobs[other])
    wait_for(lambda: get_host_states(mngr)[other] == "RUNNING", timeout=30)
    assert mngr("exec", other_agent, "--", *OWN).out == f"{other_agent}\n" and get_job(mngr, other) == jobs[other]
    other_home = mngr.home.parent / "again"
    mngr("--home", str(other_home), "create", f"guest@{other}.slurm", *RUN)
    assert mngr("--home", str(other_home), "exec", other_agent, "--", *OWN).out == f"{other_agent}\n"
    for name in ("json", "seen"):
        (mngr.home / f"hosts/slurm/{other}.{name}").unlink(missing_ok=True)
    stderr = mngr("gc").err
    assert f"the job {other} was created from this home" in stderr and f"scancel {jobs[other]}\n" in stderr
    nodes.run("scancel", jobs[other])
    mngr("destroy", "--force", *(f"@{host}.slurm" for host in get_host_states(mngr)))
    wait_for(lambda: list_job_ids(nodes) == [], timeout=20)
    assert [path.name.rpartition("-")[0] for path in list_host_dirs(nodes)] == [other]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("requeue", ["--requeue", "--no-requeue"])
def test_a_run_continues_when_a_node_is_lost(mngr: MngrProgram, nodes: Slurm, requeue: str) -> None:
    mngr.env["MNGR__PROVIDERS__SLURM__ARGS"] = f'["{requeue}"]'
    items = [str(number) for number in range(100 if IS_FULL_SCALE else 4)]
    words = [
        "map",
        *items,
        "--name",
        "r",
        "--agent",
        "player",
        "-p",
        "go {item}",
        "--output",
        "r.txt",
        "--on",
        "@.slurm",
    ]
    words += [
        "--agents-per-host",
        "10" if IS_FULL_SCALE else "2",
        "--max-agents",
        "40",
        "--canary",
        "0",
        "--",
        json.dumps(PLAY),
    ]
    run = RunDir(str(mngr.repo), "r")

    def list_events(kind: str) -> list[dict[str, Any]]:
        rows = read_json_rows(run.journal) if os.path.exists(run.journal) else []
        return [row for row in rows if row["type"] == kind]

    with BackgroundProgram(mngr, *words) as process:
        wait_for(lambda: len(list_events("prompted")) >= (20 if IS_FULL_SCALE else 3), timeout=120)
        nodes.crash_node(get_node(nodes, get_job(mngr, list_events("host")[0]["host"])))
        result = process.wait_for_end(900 if IS_FULL_SCALE else 120)
    assert result.code == 0, result.err
    assert [row["outcome"] for row in list_events("settled")] == ["done"] * len(items)
    for slug in {row["slug"] for row in list_events("settled")}:
        assert Path(run.task_path(slug, "outputs", "r.txt")).read_text() == "done"
    assert_nothing_is_left(mngr, nodes)


MOMENTS = 25 if IS_FULL_SCALE else 1  # of each
VERBS = ("create", "stop", "start", "destroy")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("verb", VERBS)
def test_gc_cleans_up_after_mngr_is_killed_at_any_moment(mngr: MngrProgram, nodes: Slurm, verb: str) -> None:
    rng = random.Random(f"{SEED} {verb}")
    words = {
        "create": ("create", "foo@box.slurm", *RUN), "stop": ("stop", "@box.slurm"), "start": ("start", "@box.slurm"),
        "destroy": ("destroy", "--force", "@box.slurm"),
    }[verb]  # fmt: skip
    for _ in range(MOMENTS):
        if verb != "create":
            mngr("create", "foo@box.slurm", *RUN)
        if verb == "start":
            mngr("stop", "@box.slurm")
        with BackgroundProgram(mngr, *words) as command:
            try:
                command.process.wait(rng.uniform(0.05, 3.0 if verb == "create" else 1.5))
            except subprocess.TimeoutExpired:
                command.process.kill()
        mngr("gc")
        host_states = get_host_states(mngr)
        assert set(host_states) <= {"box"} and "UNKNOWN" not in host_states.values()
        if host_states:
            if host_states["box"] == "STOPPED":
                mngr("start", "@box.slurm")
            mngr("destroy", "--force", "@box.slurm")
        assert_nothing_is_left(mngr, nodes)
