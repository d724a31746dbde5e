"""Containers as hosts: creation, privileges, life cycle, and cleanup without losses or leftovers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.contract.mngr_program import (
    BIN_DIR,
    BackgroundProgram,
    MngrProgram,
    clean_up,
    new_env,
    new_repo,
    wait_for,
)
from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.providers.docker.test_contract import settings
from tests.support.hosts.engines import IMAGE, Docker, Engine, Podman
from tests.support.hosts.sshd import Farm

pytestmark = [pytest.mark.hosts, pytest.mark.sampled(5)]

RUN = ("--", "sleep", "1000")


@pytest.fixture
def docker(mngr: MngrProgram, docker_engine: Docker) -> Docker:
    """The engine that `mngr` uses."""
    mngr.env.update({**settings("docker"), **docker_engine.env})
    return docker_engine


def inspect(engine: Engine, name: str) -> dict[str, Any]:
    return dict(json.loads(engine.run("container", "inspect", name).stdout)[0])


def containers(engine: Engine) -> list[str]:
    return sorted(engine.run("ps", "-a", "--format", "{{.Names}}").stdout.split())


def get_host_states(mngr: MngrProgram) -> dict[str, str]:
    rows = mngr.run_json("list", "--hosts")["hosts"]
    return {row["host"]: row["state"] for row in rows if row["provider"] == "docker"}


def record_docker_calls(mngr: MngrProgram, tmp_path: Path, before: str = "") -> Path:
    """Make mngr call docker through a script that logs all arguments. `before` is shell code that runs first."""
    log, program = tmp_path / "calls", tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$*" >>{log}\n{before}\nexec {shutil.which("docker")} "$@"\n')
    program.chmod(0o755)
    mngr.env["MNGR__PROVIDERS__DOCKER__PROGRAM"] = str(program)
    return log


def test_a_container_has_resource_limits_and_few_privileges(mngr: MngrProgram, docker: Docker) -> None:
    limits = ("-b", "memory=200m", "-b", "cpus=0.5", "-b", "pids=300", "-b", "run_args+=--shm-size=32m")
    (agent,) = mngr.run_json("create", "foo@.docker", *limits, *RUN)["agents"]
    container = inspect(docker, agent["host"])
    config = container["HostConfig"]
    assert (config["Memory"], config["NanoCpus"], config["PidsLimit"]) == (200 << 20, 500_000_000, 300)
    assert config["ShmSize"] == 32 << 20
    assert config["CapDrop"] == ["ALL"] and config["CapAdd"] in (["CHOWN"], ["CAP_CHOWN"])
    assert config["SecurityOpt"] == ["no-new-privileges"] and config["Init"] is True
    (volume,) = [mount for mount in container["Mounts"] if mount["Type"] == "volume"]
    assert volume["Destination"] == "/home/agent" and agent["work_dir"].startswith("/home/agent/")
    script = "id -u; echo $HOME; grep CapEff /proc/self/status; touch ~/x /tmp/x; ! touch /x 2>/dev/null && git config user.name"
    output = mngr("exec", "foo", "--", "sh", "-c", script + "; grep :1000: /etc/passwd").out.split()
    assert output[:5] == ["1000", "/home/agent", "CapEff:", "0000000000000000", "Test"]
    assert output[5:] == ["user:x:1000:1000:user:/home/agent:/bin/bash"]  # the image already had a user with this id
    mngr("create", "bar@.docker", *RUN)
    other = inspect(docker, mngr.get_agent("bar")["host"])
    assert volume["Name"] not in [mount.get("Name") for mount in other["Mounts"]]


def test_an_agents_secrets_are_not_visible_in_docker(mngr: MngrProgram, docker: Docker, tmp_path: Path) -> None:
    log = record_docker_calls(mngr, tmp_path)
    mngr("create", "foo@box.docker", "--env", "TOKEN=hunter2", *RUN)
    assert mngr("exec", "foo", "--", "printenv", "TOKEN").out == "hunter2\n"
    visible = json.dumps(inspect(docker, "box")) + docker.run("history", "--no-trunc", IMAGE).stdout
    volumes = docker.run("volume", "ls", "-q").stdout.split()
    visible += docker.run("volume", "inspect", *volumes).stdout + docker.run("image", "inspect", IMAGE).stdout
    visible += docker.run("top", "box", "-eo", "pid,args").stdout + log.read_text()
    assert "mngr.home" in visible and "hunter2" not in visible


def test_the_network_option_applies_to_the_whole_host(mngr: MngrProgram, docker: Docker) -> None:
    docker.run("network", "create", "--subnet", "10.91.7.0/24", "ours")
    try:
        mngr("create", "foo@open.docker", "-b", "network=ours", *RUN)
        mngr("create", "bar@shut.docker", "-b", "network=ours", "--network", "off", *RUN)
        modes = {name: inspect(docker, name)["HostConfig"]["NetworkMode"] for name in ("open", "shut")}
        assert modes == {"open": "ours", "shut": "none"}
        assert "eth0" in mngr("exec", "foo", "--", "cat", "/proc/net/dev").out
        assert "eth0" not in mngr("exec", "bar", "--", "cat", "/proc/net/dev").out
        mngr("create", "baz@shut.docker", "--network", "off", *RUN)
        stderr = mngr("create", "qux@open.docker", "--network", "off", *RUN, code=1).err
        assert "the host open was created with --network on" in stderr and "NAME@.docker --network off" in stderr
        stderr = mngr("create", "qux@.docker", "--network", "allow=example.com", *RUN, code=2).err
        assert "--network on or --network off" in stderr and "--sandbox" in stderr
        assert containers(docker) == ["open", "shut"]
    finally:
        docker.run("rm", "-f", "open", check=False)
        docker.run("network", "rm", "ours")


def test_an_image_is_built_once_for_the_same_contents(mngr: MngrProgram, docker: Docker, tmp_path: Path) -> None:
    log = record_docker_calls(mngr, tmp_path)
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "hello").write_text("hello\n")
    (folder / "Dockerfile").write_text(f"FROM {IMAGE}\nARG WHO\nENV WHO=$WHO\nCOPY hello /hello\n")
    build = ("-b", f"dockerfile={folder}/Dockerfile", "-b", "arg.WHO=3.10")

    def read_state(name: str) -> tuple[str, int]:
        result = mngr("exec", name, "--", "sh", "-c", "cat /hello; env | grep WHO")
        return result.out, sum(line.startswith("build") for line in log.read_text().splitlines())

    created = mngr("create", "one@.docker", *build, *RUN)
    assert "building the image from" in created.err and read_state("one") == ("hello\nWHO=3.10\n", 1)
    mngr("create", "two@.docker", *build, *RUN)
    assert read_state("two") == ("hello\nWHO=3.10\n", 1)
    (folder / "hello").write_text("changed\n")
    mngr("create", "three@.docker", *build, *RUN)
    assert read_state("three") == ("changed\nWHO=3.10\n", 2)
    (folder / "Dockerfile").write_text("FROM nowhere.invalid/x:1\n")
    stderr = mngr("create", "four@.docker", "-b", f"dockerfile={folder}/Dockerfile", *RUN, code=1).err
    assert f"cannot build the image from {folder}/Dockerfile" in stderr and "\nHint: " in stderr
    assert len(containers(docker)) == 3


def test_an_unsuitable_image_is_reported_and_leaves_nothing(mngr: MngrProgram, docker: Docker, tmp_path: Path) -> None:
    volumes = docker.run("volume", "ls", "-q").stdout
    bare = mngr("create", "foo@.docker", "-b", "volumes=", *RUN, code=1).err
    assert "exec sh failed" in bare and "use an image that has sh" in bare
    shutil.copy(shutil.which("busybox") or "busybox", tmp_path)
    text = f'FROM {IMAGE}\nCOPY busybox /usr/bin/\nRUN ["/usr/bin/busybox", "--install", "-s", "/usr/bin"]\n'
    (tmp_path / "Dockerfile").write_text(text)
    little = ("-b", "volumes=", "-b", f"dockerfile={tmp_path}/Dockerfile")
    lacking = mngr("create", "foo@.docker", *little, *RUN, code=1).err
    assert f"{tmp_path}/Dockerfile has no git, tmux" in lacking and "Dockerfile that adds them" in lacking
    unknown = mngr("create", "foo@.docker", "-b", "image=localhost:1/nowhere", *RUN, code=1).err
    assert "cannot pull the image localhost:1/nowhere" in unknown
    assert containers(docker) == [] and docker.run("volume", "ls", "-q").stdout == volumes
    assert get_host_states(mngr) == {} and mngr.run_json("gc", "--dry-run")["results"] == []


def test_invalid_host_options_fail_before_a_container_is_created(mngr: MngrProgram, docker: Docker) -> None:
    for words, message in (
        (("foo@.docker", "-b", "memroy=1g"), "no option 'memroy'"),
        (("foo@.docker", "-b", "memory"), "not KEY=VALUE"),
        (("foo@.docker", "-b", "program=podman"), "no option 'program'"),
        (("foo@.docker", "-b", "user=nobody"), "[providers.docker] user must be agent"),
        (("foo@.docker", "-b", "image=a", "-b", "dockerfile=b"), "only one of image, dockerfile and snapshot"),
        (("foo@.docker", "-S", "providers.docker.imgae=x"), "no setting 'imgae'"),
        (("foo", "-b", "memory=1g"), "local does not create hosts"),
        (("foo", "--new-host"), "local does not create hosts"),
    ):
        result = mngr("create", *words, *RUN, code=2)
        assert message in result.err and "\nHint: " in result.err
    assert containers(docker) == []
    mngr("create", "foo@box.docker", "--new-host", *RUN)
    assert "the host 'box' already exists" in mngr("create", "bar@box.docker", "--new-host", *RUN, code=1).err
    assert "already exists" in mngr("create", "bar@box.docker", "-b", "memory=1g", *RUN, code=2).err
    mngr("create", "bar@box.docker", *RUN)
    assert get_host_states(mngr) == {"box": "RUNNING"}


def test_project_settings_cannot_raise_a_containers_privileges(
    mngr: MngrProgram, docker: Docker, tmp_path: Path
) -> None:
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    evil.chmod(0o755)
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr/settings.toml").write_text(
        f'[providers.docker]\nmemory = "300m"\nprogram = "{evil}"\nrun_args = ["--privileged"]\n'
    )
    assert "providers.docker.memory" in mngr("create", "foo@box.docker", "--dirty", "ignore", *RUN, code=1).err
    mngr("trust", "--yes")
    result = mngr("create", "foo@box.docker", "--dirty", "ignore", *RUN)
    config = inspect(docker, "box")["HostConfig"]
    assert (config["Memory"], config["Privileged"]) == (300 << 20, False)
    assert not (tmp_path / "ran").exists()
    assert "mngr ignores providers.docker.program in the project's settings" in result.err


def test_a_stopped_host_keeps_its_files_and_starts_on_demand(mngr: MngrProgram, docker: Docker) -> None:
    mngr("create", "foo@box.docker", *RUN)
    mngr("create", "done@box.docker", "--", "true")
    wait_for(lambda: mngr.get_agent("done")["state"] == "DONE")
    mngr("exec", "foo", "--", "sh", "-c", "echo draft >draft.txt; echo installed >/tmp/installed")
    assert mngr("stop", "@box.docker").out == "stopped @box.docker\n"
    assert inspect(docker, "box")["State"]["Running"] is False
    listing = mngr.run_json("list")
    states = {agent["name"]: (agent["state"], agent["host_state"]) for agent in listing["agents"]}
    assert states == {"foo": ("STOPPED", "STOPPED"), "done": ("DONE", "STOPPED")} and listing["errors"] == []
    assert get_host_states(mngr) == {"box": "STOPPED"}
    for words in (("exec", "foo", "--", "true"), ("message", "foo", "-m", "x"), ("pull", "foo")):
        result = mngr(*words, code=6)
        assert result.err == "Error: the host box is stopped\nHint: start it: mngr start @box.docker\n"
    assert "had ended already" in mngr("stop", "foo").out
    assert mngr.run_json("gc", "--dry-run")["results"] == []
    assert inspect(docker, "box")["State"]["Running"] is False  # none of these commands has started it
    mngr("start", "foo")
    assert mngr("exec", "foo", "--", "cat", "draft.txt", "/tmp/installed").out == "draft\ninstalled\n"
    assert {agent["name"]: agent["state"] for agent in mngr.list_agents()} == {"foo": "RUNNING", "done": "DONE"}
    mngr("stop", "@box")
    mngr("start", "@box")
    assert {agent["name"]: agent["state"] for agent in mngr.list_agents()} == {"foo": "STOPPED", "done": "DONE"}
    mngr("stop", "@box")
    mngr("create", "bar@box.docker", *RUN)
    assert mngr.get_agent("bar")["state"] == "RUNNING"


@pytest.mark.full
def test_a_killed_container_shows_its_agents_as_stopped(mngr: MngrProgram, docker: Docker) -> None:
    mngr("create", "foo@box.docker", *RUN)
    docker.run("kill", "box")
    (agent,) = mngr.list_agents()
    assert (agent["name"], agent["state"], agent["state_reason"]) == ("foo", "STOPPED", "host stopped")
    mngr("message", "--start", "foo", "-m", "x")
    assert mngr.get_agent("foo")["state"] == "RUNNING"


@pytest.mark.full
def test_a_host_stops_when_all_its_agents_are_idle_or_stopped(mngr: MngrProgram, docker: Docker) -> None:
    mngr("create", "foo@box.docker", "--idle-timeout", "2s", *RUN)
    mngr("create", "bar@other.docker", "--idle-timeout", "2s", *RUN)
    mngr("create", "busy@other.docker", *RUN)
    wait_for(lambda: get_host_states(mngr)["box"] == "STOPPED", 30)
    assert {a["name"]: (a["state"], a["host_state"]) for a in mngr.list_agents()} == {
        "foo": ("STOPPED", "STOPPED"),
        "bar": ("STOPPED", "RUNNING"),
        "busy": ("RUNNING", "RUNNING"),
    }
    mngr("start", "@box")
    mngr("limit", "foo", "--idle", "none")
    mngr("start", "foo")
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    mngr("stop", "busy")
    wait_for(lambda: get_host_states(mngr) == {"box": "RUNNING", "other": "STOPPED"}, 30)


def test_an_automatic_host_is_destroyed_and_restored_with_its_last_agent(mngr: MngrProgram, docker: Docker) -> None:
    (agent,) = mngr.run_json("create", "foo@.docker", "-b", "memory=300m", *RUN)["agents"]
    mngr("exec", "foo", "--", "sh", "-c", "echo draft >draft.txt")
    mngr("create", f"bar@{agent['host']}.docker", *RUN)
    mngr("create", "baz@named.docker", *RUN)
    mngr("destroy", "--force", "foo", "baz")
    assert containers(docker) == sorted(["named", agent["host"]])
    mngr("destroy", "--force", "bar")
    assert containers(docker) == ["named"] and get_host_states(mngr) == {"named": "RUNNING"}
    assert len(docker.run("volume", "ls", "-q").stdout.split()) == 1
    mngr("undestroy", "foo")
    assert inspect(docker, agent["host"])["HostConfig"]["Memory"] == 300 << 20
    assert mngr("exec", "foo", "--", "cat", "draft.txt").out == "draft\n"
    assert mngr.get_agent("foo")["host"] == agent["host"]


def test_destroying_a_host_moves_its_agents_to_the_trash(mngr: MngrProgram, docker: Docker) -> None:
    mngr("create", "foo@box.docker", *RUN)
    mngr("create", "bar@box.docker", *RUN)
    mngr("stop", "bar")
    stderr = mngr("destroy", "@box", code=1).err
    assert (
        "mngr did not destroy the host box: foo is RUNNING" in stderr and "mngr destroy --force @box.docker" in stderr
    )
    mngr("stop", "@box")
    mngr("destroy", "@box")
    assert containers(docker) == [] and docker.run("volume", "ls", "-q").stdout == ""
    assert get_host_states(mngr) == {} and mngr.list_agents() == []
    assert {saved["name"] for saved in mngr.run_json("undestroy", "--list")["trash"]} == {"foo", "bar"}
    assert "docker has no host 'box'" in mngr("destroy", "@box.docker", code=1).err
    assert "mngr did not create the local host local" in mngr("destroy", "@local", code=1).err
    assert "mngr cannot start or stop local hosts" in mngr("stop", "@local", code=1).err


def test_a_removed_container_is_created_again_from_its_volume(mngr: MngrProgram, docker: Docker) -> None:
    mngr("create", "foo@box.docker", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo draft >draft.txt")
    docker.run("rm", "-f", "box")
    listing = mngr.run_json("list")
    assert [(agent["name"], agent["state"]) for agent in listing["agents"]] == [("foo", "UNKNOWN")]
    assert "the container box is gone" in listing["errors"][0]["error"]
    assert "mngr start @box.docker" in mngr("exec", "foo", "--", "true", code=6).err
    mngr("start", "@box.docker")
    mngr("start", "foo")
    assert mngr("exec", "foo", "--", "cat", "draft.txt").out == "draft\n"
    docker.run("rm", "-f", "-v", "box")
    docker.run("volume", "rm", *docker.run("volume", "ls", "-q").stdout.split())
    assert "and so is its volume" in mngr("start", "@box.docker", code=1).err
    mngr("destroy", "@box.docker")
    assert mngr.list_agents() == [] and get_host_states(mngr) == {}


def test_an_unreachable_engine_is_one_error_in_list(mngr: MngrProgram, docker: Docker) -> None:
    mngr("create", "foo@box.docker", *RUN)
    mngr("create", "here", *RUN)
    unreachable = {"DOCKER_HOST": "unix:///nowhere.sock"}
    listing = mngr.run_json("list", env=unreachable)
    assert {agent["name"]: (agent["state"], agent["host_state"]) for agent in listing["agents"]} == {
        "foo": ("UNKNOWN", "UNKNOWN"),
        "here": ("RUNNING", "RUNNING"),
    }
    assert [(row["host"], row["provider"]) for row in listing["errors"]] == [("box", "docker")]
    assert "Cannot connect to the Docker daemon" in listing["errors"][0]["error"]
    for words in (("exec", "foo", "--", "true"), ("create", "bar@.docker", *RUN), ("start", "@box")):
        result = mngr(*words, code=6, env=unreachable)
        assert "Cannot connect" in result.err and "\nHint: " in result.err
    assert (
        "no-docker is not installed"
        in mngr("create", "bar@.docker", "-S", "providers.docker.program=no-docker", *RUN, code=1).err
    )
    gc_result = mngr("gc", env=unreachable)
    assert "mngr could not check box" in gc_result.err and "mngr could not check docker" in gc_result.err
    assert get_host_states(mngr) == {"box": "RUNNING"} and mngr.run_json("gc")["results"] == []


def test_a_host_remembers_its_engine(mngr: MngrProgram, docker: Docker) -> None:
    del mngr.env["DOCKER_HOST"]
    engine = ("-S", f"providers.docker.host={docker.env['DOCKER_HOST']}")
    mngr("create", "foo@box.docker", *engine, *RUN)
    assert mngr("exec", "foo", "--", "hostname").out == "box\n"


def test_a_remote_engine_is_reached_by_ssh(mngr: MngrProgram, docker: Docker, farm: Farm, tmp_path: Path) -> None:
    farm.ssh(
        "h1",
        f"docker context create there --docker host={docker.env['DOCKER_HOST']} && docker context use there",
    )
    ssh = tmp_path / "bin" / "ssh"  # ssh finds its configuration by the password file, not by HOME
    ssh.parent.mkdir()
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {farm.config} "$@"\n')
    ssh.chmod(0o755)
    mngr.env["PATH"] = f"{ssh.parent}:{mngr.env['PATH']}"
    del mngr.env["DOCKER_HOST"]
    mngr.env["MNGR__PROVIDERS__DOCKER__HOST"] = "ssh://h1"
    mngr("create", "foo@box.docker", *RUN)
    assert mngr("exec", "foo", "--", "hostname").out == "box\n"
    farm.cut("h1")
    result = mngr("exec", "foo", "--", "true", code=6)
    assert "Connection refused" in result.err and mngr.get_agent("foo")["state"] == "UNKNOWN"
    farm.mend("h1")
    assert mngr.get_agent("foo")["state"] == "RUNNING"


def test_gc_cleans_up_an_interrupted_create(mngr: MngrProgram, docker: Docker, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    record_docker_calls(mngr, tmp_path, before=f'[ "$1" != exec ] || while [ -e {hold} ]; do sleep 0.05; done')
    hold.touch()
    create = subprocess.Popen(
        [BIN_DIR / "mngr", "create", "foo@.docker", *RUN], cwd=mngr.repo, env=mngr.env, start_new_session=True
    )
    wait_for(lambda: containers(docker))
    assert (
        mngr.run_json("gc", "--dry-run")["results"] == [] and get_host_states(mngr) == {}
    )  # the running create owns it
    create.send_signal(signal.SIGKILL)
    create.wait()
    hold.unlink()
    assert get_host_states(mngr) == {} and mngr.list_agents() == []
    (row,) = mngr.run_json("gc")["results"]
    assert (row["what"], row["action"]) == ("interrupted create", "cleaned")
    assert containers(docker) == [] and docker.run("volume", "ls", "-q").stdout == ""
    assert mngr.run_json("gc")["results"] == []


@pytest.mark.full
def test_gc_reports_unknown_containers_and_volumes_and_keeps_them(mngr: MngrProgram, docker: Docker) -> None:
    mngr("create", "foo@box.docker", *RUN)
    key = inspect(docker, "box")["Config"]["Labels"]["mngr.home"]
    docker.start_container("stray", "--label", f"mngr.home={key}")
    docker.start_container("other", "--label", "mngr.home=somebody")
    docker.start_container("user")
    docker.run("volume", "create", "--label", f"mngr.home={key}", "forgotten")
    rows = mngr.run_json("gc")["results"]
    assert sorted((row["what"], row["name"], row["action"]) for row in rows) == [
        ("unknown container", "stray", "left"),
        ("unknown volume", "forgotten", "left"),
    ]
    assert containers(docker) == ["box", "other", "stray", "user"]
    assert "mngr did not create" in mngr("create", "bar@user.docker", *RUN, code=1).err
    docker.run("rename", "box", "hidden")
    docker.start_container("box")  # another container takes the name
    assert mngr("exec", "foo", "--", "printenv", "MNGR_AGENT_NAME").out == "foo\n"
    mngr("destroy", "--force", "@box.docker")
    assert containers(docker) == ["box", "other", "stray", "user"]


def test_two_homes_can_use_one_host_but_only_one_owns_it(
    mngr: MngrProgram, docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mngr("create", "foo@box.docker", *RUN)
    root = tmp_path / "other"
    root.mkdir()
    env = {**new_env(root), **settings("docker"), **docker.env}
    other = MngrProgram(new_repo(root, env, monkeypatch), Path(env["MNGR_HOME"]), env)
    other("create", "bar@box.docker", *RUN)
    assert sorted(agent["name"] for agent in other.list_agents()) == ["bar", "foo"]
    assert "another home of mngr created the host box" in other("stop", "@box.docker", code=1).err
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    other("destroy", "@box.docker")
    assert other.list_agents() == [] and sorted(agent["name"] for agent in mngr.list_agents()) == ["bar", "foo"]
    clean_up(root)


def test_concurrent_creates_with_one_host_name_share_one_container(mngr: MngrProgram, docker: Docker) -> None:
    argv = [str(BIN_DIR / "mngr"), "create"]
    processes = [
        subprocess.Popen([*argv, f"w{number}@box.docker", *RUN], cwd=mngr.repo, env=mngr.env) for number in range(3)
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert containers(docker) == ["box"]
    assert {agent["name"]: agent["host"] for agent in mngr.list_agents()} == {"w0": "box", "w1": "box", "w2": "box"}
    (first, second) = mngr.run_json("create", "v@.docker", "--count", "2", *RUN)["agents"]
    assert first["host"] == second["host"] != "box"


def test_the_option_user_root_gives_root(mngr: MngrProgram, docker: Docker) -> None:
    mngr("create", "foo@box.docker", "-b", "user=root", *RUN)
    output = mngr("exec", "foo", "--", "sh", "-c", "id -u; touch /x; chown 7 /x; echo $HOME").out.split()
    assert output[0] == "0" and mngr.get_agent("foo")["work_dir"] == f"{output[1]}/.mngr/work/foo"


@pytest.mark.full
@pytest.mark.parametrize("program", ["docker", "podman"])
def test_a_host_can_be_created_from_a_snapshot_of_another(
    program: str, mngr: MngrProgram, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    engine: Engine = request.getfixturevalue(f"{program}_engine")
    kind = {"MNGR__PROVIDERS__PODMAN__KIND": "docker", "MNGR__PROVIDERS__PODMAN__PROGRAM": "podman"}
    mngr.env.update({**settings(program), **(kind if program == "podman" else {}), **engine.env})
    mngr("create", f"foo@box.{program}", "--env", "TOKEN=hunter2", "-b", "user=root", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo tool >/opt-tool; mkdir ~/.cache; echo warm >~/.cache/x")
    output = mngr("snapshot", "create", f"@box.{program}", "warm").out
    assert output == f"warm is a snapshot of @box.{program}\n"
    (row,) = mngr.run_json("snapshot", "list")["snapshots"]
    assert (row["name"], row["agent"], row["kind"]) == ("warm", f"@box.{program}", "host")
    assert b"hunter2" not in (mngr.home / "snapshots/warm/home.tar").read_bytes()
    mngr("destroy", "--force", f"@box.{program}")
    mngr("create", f"bar@.{program}", "-b", "snapshot=warm", "-b", "user=root", *RUN)
    assert mngr("exec", "bar", "--", "sh", "-c", "cat /opt-tool ~/.cache/x").out == "tool\nwarm\n"
    assert [agent["name"] for agent in mngr.list_agents()] == ["bar"]
    assert "is a snapshot of the host" in mngr("snapshot", "restore", "warm", code=1).err
    assert "there is no snapshot 'cold'" in mngr("create", f"x@.{program}", "-b", "snapshot=cold", *RUN, code=1).err
    mngr("destroy", "--force", "bar")
    assert mngr.run_json("gc", "--dry-run")["results"] == []
    mngr("snapshot", "destroy", "warm")
    assert "mngr-snapshot" not in engine.run("images").stdout
    assert "do not support snapshots" in mngr("snapshot", "create", "@local", code=1).err


def test_commands_end_when_their_client_or_terminal_is_gone(mngr: MngrProgram, docker: Docker, tmp_path: Path) -> None:
    drop_stderr = 'case $* in *"yes late"*) exec 2>/dev/null ;; esac'  # its output arrives, but not its pid
    record_docker_calls(mngr, tmp_path, before=drop_stderr)
    mngr("create", "foo@box.docker", *RUN)

    def list_running() -> set[str]:
        lines = docker.run("exec", "box", "ps", "-eo", "args").stdout.splitlines()
        attached = {"attach" for line in lines if line.startswith("tmux") and "attach-session" in line}
        return {line.split()[0] for line in lines} & {"yes", "tail"} | attached

    with (
        BackgroundProgram(mngr, "events", "foo", "--follow", "--format", "{type}") as events,
        BackgroundProgram(mngr, "exec", "foo", "--", "yes") as command,
        BackgroundProgram(mngr, "exec", "foo", "--", "yes", "late") as late,
        PtyTerminal([str(BIN_DIR / "mngr"), "connect", "foo"], mngr.repo, mngr.env) as terminal,
    ):
        assert (events.read_line(), command.read_line(), late.read_line()) == ("created", "y", "late")
        terminal.wait_for_text("detach:")
        assert list_running() == {"yes", "tail", "attach"}
        events.process.kill()
        for program in (command, late):
            assert program.process.stdout is not None
            program.process.stdout.close()
        os.killpg(terminal.process.pid, signal.SIGHUP)  # as a closed terminal does
        wait_for(lambda: list_running() == set())
        assert [program.process.wait(20) for program in (command, late)] == [141, 141]
        terminal.process.wait(20)
    agent = mngr.get_agent("foo")
    assert (agent["state"], agent["state_reason"]) == ("RUNNING", None)


@pytest.mark.full
def test_podman_hosts_work_like_docker_hosts(mngr: MngrProgram, podman_engine: Podman, tmp_path: Path) -> None:
    kind = {"MNGR__PROVIDERS__PODMAN__KIND": "docker", "MNGR__PROVIDERS__PODMAN__PROGRAM": "podman"}
    mngr.env.update({**settings("podman"), **kind, **podman_engine.env})
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nENV WHO=me\n")
    mngr("create", "foo@box.podman", "-b", f"dockerfile={tmp_path}/Dockerfile", "-b", "memory=200m", *RUN)
    assert inspect(podman_engine, "box")["HostConfig"]["Memory"] == 200 << 20
    assert mngr("exec", "foo", "--", "sh", "-c", "id -u; env | grep WHO").out == "1000\nWHO=me\n"
    mngr("stop", "@box.podman")
    assert mngr.get_agent("foo")["state"] == "STOPPED"
    mngr("start", "foo")
    podman_engine.run("rm", "-f", "-t", "0", "box")
    assert mngr.get_agent("foo")["state"] == "UNKNOWN"
    mngr("start", "@box")
    assert mngr.run_json("gc", "--dry-run")["results"] == []
    mngr("destroy", "--force", "@box")
    assert containers(podman_engine) == [] and podman_engine.run("volume", "ls", "-q").stdout == ""
