"""Jobs of Slurm as hosts: what Slurm does by itself, and what we make of it. The cluster is a real one of three nodes."""

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

from mngr.base import clock
from mngr.mapreduce.journal import read_journal
from mngr.mapreduce.run_dir import RunDir
from mngr.testkit.contract.program import IS_FULL_SCALE, BackgroundProgram, MngrProgram, wait_for
from tests.conftest import SEED
from tests.providers.slurm.test_contract import settings
from tests.support.hosts.place import naming
from tests.support.hosts.slurm import Slurm

RUN = ("--", "sleep", "1000")
OWN = ("sh", "-c", 'cat "$MNGR_OUTPUT_DIR/own"')
PLAY = [
    {"run": "echo x >made.txt"}, {"sleep": 4},
    {"run": "echo x >made.txt; rm -f .git/index.lock; git add made.txt; git commit -qm made || :"},
    {"write": {"path": "$MNGR_OUTPUT_DIR/r.txt", "content": "done"}}, "wait",
]  # fmt: skip


@pytest.fixture
def nodes(mngr: MngrProgram, slurm: Slurm) -> Slurm:
    """The cluster, which `mngr` uses."""
    mngr.env.update(settings(slurm))
    return slurm


def processes(slurm: Slurm) -> list[int]:
    """What runs on any node for a host: it has the host's directory among its words or variables."""
    return naming(slurm.shared / "hosts") + naming(slurm.shared / "hosts", "environ")


def ids(slurm: Slurm) -> list[str]:
    """The jobs that are not over, and each element of an array."""
    return sorted(slurm.run("squeue", "-h", "-r", "-o", "%i").splitlines())


def places(slurm: Slurm) -> list[Path]:
    """The directories that hosts have."""
    return sorted((slurm.shared / "hosts").glob("*/*"))


def node_of(slurm: Slurm, job: str) -> str:
    return slurm.run("squeue", "-h", "-j", job, "-o", "%N")


def job_of(mngr: MngrProgram, host: str) -> str:
    """The job of a host, by what mngr knows."""
    return str(json.loads((mngr.home / f"hosts/slurm/{host}.json").read_text())["engine"]["job"])


def states(mngr: MngrProgram) -> dict[str, str]:
    rows = mngr.run_json("list", "--hosts")["hosts"]
    return {row["host"]: row["state"] for row in rows if row["provider"] == "slurm"}


def assert_nothing_is_left(mngr: MngrProgram, slurm: Slurm) -> None:
    wait_for(lambda: ids(slurm) == [], timeout=60)  # a node that is just lost holds a job that long
    wait_for(lambda: processes(slurm) == [], timeout=10)
    assert places(slurm) == [] and states(mngr) == {}
    assert mngr("gc").err == "nothing to clean up\n"


@pytest.mark.sampled(6)
def test_agents_get_term_and_nothing_outlives_its_job(mngr: MngrProgram, nodes: Slurm) -> None:
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
    assert processes(nodes)
    nodes.run("scancel", job_of(mngr, "box"))
    wait_for(lambda: ids(nodes) == [], timeout=30)
    wait_for(lambda: processes(nodes) == [], timeout=2)
    assert [a["state"] for a in mngr.list_agents()] == ["STOPPED", "STOPPED"] and states(mngr) == {"box": "STOPPED"}
    assert "mngr start @box.slurm" in mngr("exec", "foo", "--", "true", code=6).err
    mngr("start", "foo")
    assert mngr("exec", "foo", "--", "cat", "word").out == "told\n"
    mngr("destroy", "--force", "@box.slurm")
    assert_nothing_is_left(mngr, nodes)


@pytest.mark.sampled(4)
def test_the_end_by_a_time_limit_is_shown(mngr: MngrProgram, nodes: Slurm) -> None:
    mngr("create", "foo@box.slurm", "-b", "time=2:00:00", *RUN)
    (row,) = [row for row in mngr.run_json("list", "--hosts")["hosts"] if row["host"] == "box"]
    assert 7000 < clock.parse_timestamp(row["ends_at"]) - time.time() <= 7200
    assert row["ends_at"] in mngr("list", "--hosts").out
    mngr("create", "bar@free.slurm", *RUN)
    (row,) = [row for row in mngr.run_json("list", "--hosts")["hosts"] if row["host"] == "free"]
    assert row["ends_at"] is None


@pytest.mark.full
def test_a_host_whose_time_is_over_is_stopped_and_can_be_started_again(mngr: MngrProgram, nodes: Slurm) -> None:
    mngr("create", "foo@box.slurm", "player", "-b", "time=1", "-m", "hello")  # Slurm counts in minutes
    mngr("wait", "foo")
    mngr("exec", "foo", "--", "sh", "-c", "echo draft >file")
    wait_for(lambda: ids(nodes) == [], timeout=150)
    assert processes(nodes) == [] and states(mngr) == {"box": "STOPPED"}
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
def test_a_lost_node_costs_no_file(mngr: MngrProgram, nodes: Slurm, requeue: str) -> None:
    mngr("create", "foo@box.slurm", "player", "-b", f"args+={requeue}", "-m", "hello")
    mngr("wait", "foo")
    mngr("exec", "foo", "--", "sh", "-c", "echo draft >file")
    mngr("list")
    job = job_of(mngr, "box")
    lost = node_of(nodes, job)
    nodes.crash_node(lost)
    if requeue == "--requeue":
        wait_for(lambda: nodes.run("squeue", "-h", "-j", job, "-o", "%t", check=False) != "R", timeout=30)
        wait_for(lambda: node_of(nodes, job) not in ("", lost), timeout=60)
        wait_for(lambda: states(mngr) == {"box": "RUNNING"}, timeout=20)
        shown = mngr.get_agent("foo")
        assert (shown["state"], shown["state_reason"]) == ("FAILED", "lost")
    else:
        wait_for(lambda: ids(nodes) == [], timeout=30)
        assert "its node failed" in mngr("exec", "foo", "--", "true", code=6).err
        assert states(mngr) == {"box": "STOPPED"} and mngr.get_agent("foo")["state"] == "STOPPED"
    mngr("start", "foo")
    assert (job_of(mngr, "box") == job) is (requeue == "--requeue")
    assert mngr("exec", "foo", "--", "cat", "file").out == "draft\n"
    mngr("message", "foo", "-m", "again", "--wait")
    said = [row["text"] for row in mngr.run_json("transcript", "foo")["transcript"]]
    assert said == ["hello", "ok: hello", "again", "ok: again"]
    mngr("destroy", "--force", "@box.slurm")
    assert_nothing_is_left(mngr, nodes)


@pytest.mark.sampled(4)
def test_what_is_pending_is_waited_for_and_said(mngr: MngrProgram, nodes: Slurm) -> None:
    try:
        with BackgroundProgram(mngr, "create", "foo@.slurm", "-b", "partition=tiny", *RUN) as waiting:
            wait_for(lambda: "is pending: PartitionDown" in waiting.read_stderr(), timeout=30)
            nodes.run("scontrol", "update", "PartitionName=tiny", "State=UP")
            assert waiting.wait_for_end().code == 0
    finally:
        nodes.run("scontrol", "update", "PartitionName=tiny", "State=DOWN")
    assert node_of(nodes, ids(nodes)[0]) == "n3" and mngr.get_agent("foo")["state"] == "RUNNING"


@pytest.mark.sampled(4)
def test_who_waits_no_longer_leaves_nothing(mngr: MngrProgram, nodes: Slurm) -> None:
    mngr.env["MNGR__PROVIDERS__SLURM__WAIT"] = "1s"
    ran = mngr("create", "foo@.slurm", "-b", "partition=tiny", *RUN, code=5)
    assert "was still pending after" in ran.err and "PartitionDown" in ran.err and "wait longer" in ran.err
    assert_nothing_is_left(mngr, nodes)


@pytest.mark.sampled(4)
def test_what_slurm_refuses_is_said_and_leaves_nothing(mngr: MngrProgram, nodes: Slurm) -> None:
    ran = mngr("create", "foo@.slurm", "-b", "partition=none", *RUN, code=1)
    assert "Slurm does not take the job: Invalid partition" in ran.err
    assert "Hint: check what is asked for: sinfo" in ran.err
    assert "no option 'cpu'" in mngr("create", "foo@.slurm", "-b", "cpu=1", *RUN, code=2).err
    assert mngr.list_agents() == []
    assert_nothing_is_left(mngr, nodes)
    mngr.env["MNGR__PROVIDERS__SLURM__THROUGH"] = '["env", "PATH=/nowhere", "/bin/sh", "-c"]'
    ran = mngr("create", "foo@.slurm", *RUN, code=1)
    assert "there is no sbatch" in ran.err and "through" in ran.err


@pytest.mark.sampled(6)
def test_a_controller_that_does_not_answer_is_said_so_in_seconds(
    mngr: MngrProgram, nodes: Slurm, tmp_path: Path
) -> None:
    mngr("create", "foo@box.slurm", *RUN)
    mngr("list")
    text = Path(nodes.env["SLURM_CONF"]).read_text()
    (tmp_path / "away.conf").write_text(re.sub(r"SlurmctldPort=\d+", "SlurmctldPort=1", text))
    mngr.env["SLURM_CONF"] = str(tmp_path / "away.conf")
    began = time.monotonic()
    ran = mngr("create", "bar@.slurm", *RUN, code=6)
    assert time.monotonic() - began < 15  # 9 of which are Slurm's own
    assert "Slurm does not answer: Unable to contact slurm controller" in ran.err
    shown = mngr.run_json("list")
    assert [row["host"] for row in shown["errors"]] == ["box"]
    assert [(a["name"], a["state"]) for a in shown["agents"]] == [("foo", "UNKNOWN")]
    mngr.env["SLURM_CONF"] = nodes.env["SLURM_CONF"]
    mngr("gc")  # nobody knew whether bar's job was there
    mngr("destroy", "--force", "@box.slurm")
    assert_nothing_is_left(mngr, nodes)


@pytest.mark.sampled(4)
def test_one_whose_file_was_lost_is_taken_up_as_what_it_is(mngr: MngrProgram, nodes: Slurm) -> None:
    mngr("create", "foo@box.slurm", "-b", "shared=false", *RUN)
    (mngr.home / "hosts/slurm/box.json").unlink()
    mngr("create", "bar@box.slurm", *RUN)
    assert "on the disk of its node" in mngr("stop", "@box.slurm", code=1).err
    assert {row["state"] for row in mngr.run_json("list")["agents"]} == {"RUNNING"}
    assert mngr("exec", "foo", "--", "echo", "fine").out == "fine\n"
    mngr("destroy", "--force", "@box.slurm")
    assert_nothing_is_left(mngr, nodes)


def test_what_nobody_knows_is_named(mngr: MngrProgram, nodes: Slurm) -> None:
    mngr("create", "foo@box.slurm", *RUN)
    for name in ("json", "seen"):
        (mngr.home / f"hosts/slurm/box.{name}").unlink(missing_ok=True)
    said = mngr("gc").err
    assert "the job box was made from this home, which does not know it" in said
    removals = re.findall("if you do not need it: (.+)", said)
    assert removals == [f"scancel {ids(nodes)[0]}", shlex.join(["rm", "-r", str(places(nodes)[0])])]
    nodes.run(*removals[0].split())
    wait_for(lambda: ids(nodes) == [], timeout=20)
    subprocess.run(shlex.split(removals[1]), check=True)
    mngr("gc")
    assert processes(nodes) == [] and mngr("gc").err == "nothing to clean up\n"


@pytest.mark.sampled(4)
def test_a_host_whose_end_was_cut_off_is_ended_before_it_is_made_again(mngr: MngrProgram, nodes: Slurm) -> None:
    mngr("create", "foo@box.slurm", *RUN)
    mngr("destroy", "--force", "foo")
    known = mngr.home / "hosts/slurm/box.json"
    known.with_suffix(".ending").write_bytes(known.read_bytes())  # as a killed destroy leaves it
    (before,) = ids(nodes)
    mngr("undestroy", "foo")
    assert mngr("gc").err == "nothing to clean up\n" and before not in ids(nodes)
    mngr("start", "foo")
    assert mngr.get_agent("foo")["state"] == "RUNNING" and len(places(nodes)) == 1


@pytest.mark.sampled(4)
def test_hosts_that_are_wanted_together_are_one_array(mngr: MngrProgram, nodes: Slurm) -> None:
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
    jobs = {host: job_of(mngr, host) for host in states(mngr)}
    assert sorted(jobs.values()) == ids(nodes) and len(set(jobs.values())) == 4
    assert len({job.partition("_")[0] for job in jobs.values()}) < 4, jobs
    together = [host for host, job in jobs.items() if "_" in job]
    host, other = together[:2]
    (agent,) = [a["name"] for a in mngr.list_agents() if a["host"] == host]
    (beside,) = [a["name"] for a in mngr.list_agents() if a["host"] == other]
    mngr("stop", f"@{host}.slurm")
    assert ids(nodes) == sorted(set(jobs.values()) - {jobs[host]})  # the others go on
    mngr("start", f"@{host}.slurm")
    assert job_of(mngr, host) != jobs[host] and len(ids(nodes)) == 4
    assert mngr("exec", agent, "--", *OWN).out == f"{agent}\n"
    nodes.run("scontrol", "requeue", jobs[other])
    wait_for(lambda: states(mngr)[other] == "RUNNING", timeout=30)
    assert mngr("exec", beside, "--", *OWN).out == f"{beside}\n" and job_of(mngr, other) == jobs[other]
    again = mngr.home.parent / "again"
    mngr("--home", str(again), "create", f"guest@{other}.slurm", *RUN)
    assert mngr("--home", str(again), "exec", beside, "--", *OWN).out == f"{beside}\n"
    for name in ("json", "seen"):
        (mngr.home / f"hosts/slurm/{other}.{name}").unlink(missing_ok=True)
    said = mngr("gc").err
    assert f"the job {other} was made from this home" in said and f"scancel {jobs[other]}\n" in said
    nodes.run("scancel", jobs[other])
    mngr("destroy", "--force", *(f"@{host}.slurm" for host in states(mngr)))
    wait_for(lambda: ids(nodes) == [], timeout=20)
    assert [place.name.rpartition("-")[0] for place in places(nodes)] == [other]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("requeue", ["--requeue", "--no-requeue"])
def test_a_run_goes_on_when_a_node_is_lost(mngr: MngrProgram, nodes: Slurm, requeue: str) -> None:
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

    def seen(kind: str) -> list[dict[str, Any]]:
        rows = read_journal(run.journal) if os.path.exists(run.journal) else []
        return [row for row in rows if row["type"] == kind]

    with BackgroundProgram(mngr, *words) as process:
        wait_for(lambda: len(seen("prompted")) >= (20 if IS_FULL_SCALE else 3), timeout=120)
        nodes.crash_node(node_of(nodes, job_of(mngr, seen("host")[0]["host"])))
        ended = process.wait_for_end(900 if IS_FULL_SCALE else 120)
    assert ended.code == 0, ended.err
    assert [row["outcome"] for row in seen("settled")] == ["done"] * len(items)
    for slug in {row["slug"] for row in seen("settled")}:
        assert Path(run.task_path(slug, "outputs", "r.txt")).read_text() == "done"
    assert_nothing_is_left(mngr, nodes)


MOMENTS = 25 if IS_FULL_SCALE else 1  # of each
VERBS = ("create", "stop", "start", "destroy")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("verb", VERBS)
def test_nothing_is_left_wherever_mngr_is_killed(mngr: MngrProgram, nodes: Slurm, verb: str) -> None:
    chance = random.Random(f"{SEED} {verb}")
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
                command.process.wait(chance.uniform(0.05, 3.0 if verb == "create" else 1.5))
            except subprocess.TimeoutExpired:
                command.process.kill()
        mngr("gc")
        known = states(mngr)
        assert set(known) <= {"box"} and "UNKNOWN" not in known.values()
        if known:
            if known["box"] == "STOPPED":
                mngr("start", "@box.slurm")
            mngr("destroy", "--force", "@box.slurm")
        assert_nothing_is_left(mngr, nodes)
