"""The hosts of the tests behave as they claim, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import wait_for
from tests.support.hosts.engines import USER, Docker, Engine, Podman
from tests.support.hosts.machines import Machine, Machines
from tests.support.hosts.place import mounts, naming
from tests.support.hosts.sshd import Farm

pytestmark = pytest.mark.hosts


def test_each_host_of_a_farm_has_its_own_home(farm: Farm) -> None:
    results = {name: farm.ssh(name, 'echo "$HOME"; git config user.name') for name in farm.names}
    assert {name: result.stdout for name, result in results.items()} == {
        name: f"{farm.home(name)}\nTest\n" for name in ("h1", "h2", "h3")
    }


def test_ssh_rejects_a_farm_host_with_the_wrong_key(farm: Farm) -> None:
    config = farm.config.with_name("wrong")
    config.write_text(farm.config.read_text().replace("/h1/known_hosts", "/h2/known_hosts"))
    result = farm.hosts["h1"].ssh(config, ("true",), 5)
    assert result.returncode == 255
    assert "verification failed" in result.stderr


def test_cutting_off_a_host_ends_its_connections_but_not_its_processes(farm: Farm) -> None:
    argv = ["ssh", "-F", str(farm.config), "h1", "echo up; sleep 60 & echo $! > ~/pid; wait"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as connection:
        assert connection.stdout
        assert connection.stdout.readline() == "up\n"
        pid = int(wait_for(lambda: read_if_exists(farm.home("h1") / "pid")))
        farm.cut("h1")
        assert connection.wait(10) == 255
    assert "refused" in farm.ssh("h1", "true").stderr
    assert farm.ssh("h2", "true").returncode == 0
    assert is_running(pid)
    with ThreadPoolExecutor(1) as executor:  # The server must not end with the thread that started it.
        executor.submit(farm.mend, "h1").result()
    assert farm.ssh("h1", "echo back").stdout == "back\n"


def test_reset_restores_a_farm_for_the_next_test(farm: Farm) -> None:
    farm.ssh("h1", "touch ~/left; sleep 60 >/dev/null 2>&1 </dev/null & echo $! > ~/pid")
    pid = int(read_if_exists(farm.home("h1") / "pid"))
    farm.cut("h2")
    farm.reset()
    assert [file.name for file in farm.home("h1").iterdir()] == [".gitconfig"]
    assert not is_running(pid)
    assert farm.ssh("h2", "true").returncode == 0


def test_the_dead_host_accepts_a_connection_and_never_answers(farm: Farm) -> None:
    argv = ["ssh", "-F", str(farm.config), "-o", "ConnectTimeout=1", farm.dead, "true"]
    start = time.monotonic()
    result = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    assert result.returncode == 255
    assert "during banner exchange" in result.stderr
    assert time.monotonic() - start > 0.9


def test_a_farm_of_ten_hosts_starts_quickly() -> None:
    start = time.monotonic()
    with Farm(10) as farm:
        seconds = time.monotonic() - start
        assert farm.ssh("h10", "echo yes").stdout == "yes\n"
    assert seconds < 5, "it takes 0.1 s"


def test_a_machine_has_its_own_processes_name_and_files(machine: Machine) -> None:
    result = machine.ssh("hostname; cat /proc/1/comm; touch ~/mine /tmp/mine; ls /tmp; echo $HOME; pwd")
    home = os.path.expanduser("~root")
    assert result.stdout.splitlines() == ["m1", "sshd", "mine", home, home]
    assert (machine.home / "mine").exists()
    assert not Path("/tmp/mine").exists()


def test_a_restarted_machine_keeps_its_home_and_nothing_else(machine: Machine) -> None:
    boot_id = "cat /proc/sys/kernel/random/boot_id"
    first = machine.ssh(f"{boot_id}; touch ~/kept /tmp/lost; tmux new-session -d sleep 60").stdout
    machine.crash()
    assert machine.ssh("true", patience=1).returncode == 255
    machine.restart()
    result = machine.ssh(f"{boot_id}; ls ~ /tmp; pgrep -c sleep; tmux list-sessions")
    second = result.stdout.splitlines()
    assert second[0] not in first
    assert "kept" in second
    assert "lost" not in second
    assert "0" in second
    assert "error connecting" in result.stderr or "no server" in result.stderr


def test_a_crash_is_silent_on_the_network_until_the_machine_is_back(machine: Machine) -> None:
    argv = ["ssh", "-F", str(machine.config), "-o", "ServerAliveInterval=1", "m1", "echo up; sleep 60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as connection:
        assert connection.stdout
        assert connection.stderr
        connection.stdout.readline()
        machine.crash()
        with pytest.raises(subprocess.TimeoutExpired):
            connection.wait(0.3)
        machine.restart()
        assert connection.wait(20) == 255
        assert "not responding" not in connection.stderr.read(), "the new boot did not refuse it"


def test_a_machine_that_is_cut_off_keeps_running_and_can_be_reached_again(machine: Machine) -> None:
    argv = ["ssh", "-F", str(machine.config), "m1", "echo up; read word; echo $word"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as connection:
        assert connection.stdin
        assert connection.stdout
        connection.stdout.readline()
        machine.partition()
        connection.stdin.write("through\n")
        connection.stdin.flush()
        assert machine.ssh("true", patience=1).returncode == 255
        assert connection.poll() is None
        machine.heal()
        assert connection.stdout.readline() == "through\n"
        assert connection.wait(10) == 0


def test_machines_share_nothing() -> None:
    with Machines(2) as first, Machines(1) as second:
        addresses = {first["m1"].address, first["m2"].address, second["m1"].address}
        assert len(addresses) == 3
        first["m1"].crash()
        assert first["m2"].ssh("hostname").stdout == "m2\n"
        assert second["m1"].ssh("ls ~").stdout == ""


@pytest.fixture(params=["docker", "podman"])
def engine(request: pytest.FixtureRequest) -> Engine:
    fixture = request.getfixturevalue(f"{request.param}_engine")
    assert isinstance(fixture, Engine)
    return fixture


def test_an_engine_runs_the_image_with_the_programs_of_this_machine(engine: Engine) -> None:
    engine.start_container("c1")
    result = engine.run("exec", "c1", "sh", "-c", "tmux new-session -d sleep 60; tmux list-sessions; git --version")
    assert "1 windows" in result.stdout
    assert "git version" in result.stdout
    user = engine.run("exec", "-u", USER, "c1", "sh", "-c", "id -un; touch ~/file; ls $HOME")
    assert user.stdout == "user\nfile\n"
    assert engine.run("exec", "c1", "sh", "-c", "exit 7", check=False).returncode == 7


def test_reset_restores_an_engine_for_the_next_test(engine: Engine) -> None:
    engine.start_container("c1", "-v", "kept:/kept")
    engine.run("commit", "c1", "localhost/other:1")
    engine.reset()
    assert engine.run("ps", "-a", "-q").stdout == ""
    assert engine.run("volume", "ls", "-q").stdout == ""
    assert engine.run("images", "--format", "{{.Repository}}:{{.Tag}}").stdout == f"{engine.image}\n"


def test_an_engine_is_found_through_its_variables_alone(engine: Engine, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **engine.env}
    argv = [engine.program, "run", "--rm", *engine.options, engine.image, "echo", "hello"]
    result = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (result.stdout, result.returncode) == ("hello\n", 0)


@pytest.mark.parametrize("kind", [Docker, Podman])
def test_an_engine_leaves_nothing_behind(kind: type[Engine]) -> None:
    with kind() as engine:
        engine.start_container("c1")
        directory = engine.dir
        assert mounts(directory)
    assert mounts(directory) == []
    assert not directory.exists()
    assert naming(directory) == []


HOSTS: list[Callable[[], Farm | Machines | Docker]] = [Farm, Machines, Docker]


@pytest.mark.parametrize("kind", HOSTS)
def test_hosts_end_when_the_test_process_is_killed(
    kind: Callable[[], Farm | Machines | Docker],
) -> None:
    module = kind.__module__
    code = f"import {module} as m; p = m.{kind.__name__}()._place; print(p.number, p.dir, flush=True); input()"
    tests = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with tests:
        assert tests.stdout
        number, directory = tests.stdout.readline().split()
        host_dir = Path(directory)
        assert naming(host_dir)
        tests.send_signal(signal.SIGKILL)
    wait_for(lambda: not naming(host_dir))
    wait_for(lambda: not list(Path("/sys/class/net").glob(f"mngr{number}m*")))
    for point in reversed(mounts(host_dir)):
        subprocess.run(["umount", "-l", point], check=True)
    subprocess.run(["rm", "-rf", host_dir], check=True)


def read_if_exists(file: Path) -> str:
    """Return the text of a file, or an empty string when it does not exist."""
    return file.read_text() if file.exists() else ""


def is_running(pid: int) -> bool:
    """True when a process runs and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
