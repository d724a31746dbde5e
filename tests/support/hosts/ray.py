"""A private Ray cluster: a head and two nodes, each with its own network, processes and files.

It cannot be reached from outside, and it ends with the process that started it, however that process ends.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.hosts.place import PATH, Place, children, end, kill, program, start, undone
from tests.support.paths import ROOT

ENGINES = ROOT / ".engines"
PORT = 6379
STARTS = 90.0  # seconds for the start of the cluster on a busy machine
CPUS = 64  # CPUs of each node: enough for many hosts with one CPU each

# The network of the head, to which all nodes are connected. Nodes and hosts replace /tmp, where the clone and its
# Python may be, so Ray's Python is mounted elsewhere, and no process works in a hidden directory.
HEAD = """\
set -eu
files=$1 engine=$2
shift 2
cd /
mount --bind "$engine" "$files/engine"
ip link set lo up
ip link add net0 type bridge
ip addr add 10.0.0.1/24 dev net0
ip link set net0 up
exec "$@"
"""
# A node waits for its network cable. Only the node itself sees its files in `files`.
NODE = """\
set -eu
address=$1 files=$2 engine=$3
shift 3
cd /
read -r _
mount --bind "$engine" "$files/engine"
mount -t tmpfs tmpfs "$files/ray"
mount -t tmpfs tmpfs "$files/hosts"
mount -t tmpfs tmpfs /tmp
ip link set lo up
ip addr add "$address/24" dev eth0
ip link set eth0 up
exec "$@"
"""
# Runs the cluster's Python in the head's network, or in an empty network while the cable is cut.
PYTHON = """\
#!/bin/sh
echo $$ >>"{dir}/bridges"
[ ! -e "{dir}/cut" ] || exec unshare --net "{python}" "$@"
exec nsenter --net="/proc/{head}/ns/net" "{python}" "$@"
"""
# Stays connected, and reports the actors and nodes of the cluster.
CLERK = """\
import json, ray, sys
ray.init(address="10.0.0.1:%d", namespace="mngr", log_to_driver=False, logging_level="ERROR")
print("@", flush=True)
for line in sys.stdin:
    named = [one["name"] for one in ray.util.list_named_actors(all_namespaces=True)]
    for name in named if line == "reset\\n" else ():
        try:
            ray.kill(ray.get_actor(name, namespace="mngr"))
        except ValueError:
            pass
    for name in named if line == "leave\\n" else ():
        if name.startswith("host:"):
            ray.get(ray.get_actor(name, namespace="mngr").remove_host.remote())
    nodes = [{"address": n["NodeManagerAddress"], "alive": n["Alive"], "id": n["NodeID"]} for n in ray.nodes()]
    print("@" + json.dumps({"actors": sorted(named), "nodes": nodes}), flush=True)
"""
# Ray declares a silent node dead after a few seconds instead of a minute.
QUICK = (
    "RAY_health_check_period_ms=1000",
    "RAY_health_check_timeout_ms=2000",
    "RAY_health_check_failure_threshold=3",
)


# The configuration of Ray's autoscaler with its provider for tests, whose nodes are processes on the head. Ray's own
# class AutoscalingCluster writes the same configuration, but the packages of Ray lack a file that it reads.
AUTOSCALER: dict[str, Any] = {
    "cluster_name": "fake_multinode",
    "max_workers": 4,
    "upscaling_speed": 1.0,
    "idle_timeout_minutes": 60,
    "provider": {
        "type": "fake_multinode",
        "use_node_id_as_ip": True,
        "disable_node_updaters": True,
        "disable_launch_config_check": True,
    },
    "head_node_type": "ray.head.default",
    **{key: {} for key in ("docker", "auth", "file_mounts")},
    **{f"{who}setup_commands": [] for who in ("", "head_", "worker_")},
    **{f"{who}start_ray_commands": [] for who in ("head_", "worker_")},
    **{key: [] for key in ("cluster_synced_files", "rsync_exclude", "rsync_filter", "initialization_commands")},
}


class Cluster:
    """A Ray cluster with the nodes n1 and n2. `settings` are those of the provider.

    With `node_types`, there is only the head, and Ray's autoscaler starts nodes of these types when they are needed.
    """

    def __init__(self, node_types: Mapping[str, Mapping[str, object]] | None = None) -> None:
        self._node_types = node_types
        self._place = Place("ray")
        self.dir = self._place.dir
        self.engine = ENGINES / "ray"
        self.python = self.engine / "bin" / "python"
        if not (self.engine / "stamp").exists():
            raise RuntimeError("there is no .engines/ray: run `make test-hosts`, which installs it")
        self._head: subprocess.Popen[bytes] | None = None
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._clerk: subprocess.Popen[bytes] | None = None
        with undone(self.stop):
            self._start()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def settings(self) -> dict[str, str]:
        """The settings that mngr needs to reach the cluster."""
        return {
            "address": f"10.0.0.1:{PORT}",
            "python": str(self.dir / "python"),
            "directory": str(self.dir / "hosts"),
        }

    def ask(self, request: str = "look") -> dict[str, Any]:
        """Return the named actors and the nodes, as the cluster itself reports them."""
        if self._clerk is None:
            command = [*self._enter(), str(self.python), "-c", CLERK % PORT]
            self._clerk = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": PATH})
            self._hear()
        assert self._clerk.stdin
        self._clerk.stdin.write(f"{request}\n".encode())
        self._clerk.stdin.flush()
        return dict(json.loads(self._hear()))

    def _hear(self) -> bytes:
        assert self._clerk and self._clerk.stdout
        for line in self._clerk.stdout:
            if line.startswith(b"@"):  # Ray may print other lines, too
                return line[1:]
        raise RuntimeError("the cluster does not answer")

    def reset(self) -> None:
        """Remove everything from the cluster, and bring both nodes up."""
        self.mend()
        self._end_bridges()
        self.ask("reset")
        for node in self.nodes:
            for name in self.hosts(node):
                shutil.rmtree(self.files(node) / name, ignore_errors=True)
        self.restore()

    @property
    def nodes(self) -> list[str]:
        """The nodes that are up."""
        return sorted(self._nodes)

    def hosts(self, node: str) -> list[str]:
        """Return the names of the host directories on a node that is up."""
        return sorted(path.name for path in self.files(node).iterdir())

    def files(self, node: str) -> Path:
        """Return the directory of the hosts on a node."""
        pid = children(self._nodes[node].pid)[0]
        return Path(f"/proc/{pid}/root{self.dir}/hosts")

    def processes(self, word: str) -> list[int]:
        """Return the processes on any node of this cluster whose environment contains a word."""
        pids = []
        for pid in filter(str.isdigit, (path.name for path in Path("/proc").iterdir())):
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes()
                if word.encode() in environment and bytes(self.dir / "hosts") in environment:
                    pids.append(int(pid))
            except OSError:
                continue
        return pids

    def actors(self, kind: str) -> list[int]:
        """Return the processes on the head that are actors of a class."""
        namespace = Path(f"/proc/{self._pid}/ns/pid").readlink()
        pids = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if (path / "ns/pid").readlink() == namespace and f"ray::{kind}".encode() in _words(int(path.name)):
                    pids.append(int(path.name))
            except OSError:
                continue
        return pids

    def kill(self, node: str) -> None:
        """Cut the power of a node: all its processes and files are gone, without a word on the network."""
        for pid in children(self._nodes[node].pid):
            kill(pid)
        end(self._nodes.pop(node))
        subprocess.run([*self._enter(), "ip", "link", "del", f"to-{node}"], env={"PATH": PATH}, check=False)

    def restore(self) -> None:
        """Bring both nodes up. A killed node is replaced by a new one."""
        missing = [(name, number) for name, number in (("n1", 2), ("n2", 3)) if name not in self._nodes]
        for name, number in missing:
            self._add(name, f"10.0.0.{number}")
        if missing:
            self._wait(3)

    def cut(self) -> None:
        """Break every connection to the cluster, and block new ones."""
        (self.dir / "cut").touch()
        self._end_bridges()

    def mend(self) -> None:
        """Allow connections again."""
        if (self.dir / "cut").exists():
            (self.dir / "cut").unlink()
            self._end_bridges()

    def stop(self) -> None:
        """Remove the cluster."""
        self._end_bridges()
        if self._clerk:
            self._clerk.kill()
            self._clerk.communicate()
        for server in [*self._nodes.values(), self._head]:
            for pid in children(server.pid) if server else ():
                kill(pid)
            if server:
                end(server)
        self._place.close()

    def _start(self) -> None:
        for name in ("ray", "hosts", "engine"):
            (self.dir / name).mkdir()
        options = [
            "--head",
            f"--port={PORT}",
            "--num-cpus=0",
            f"--temp-dir={self.dir}/ray",
            "--include-dashboard=false",
        ]
        if self._node_types is not None:
            head_type = {"resources": {}, "node_config": {}, "max_workers": 0}
            types = {"ray.head.default": head_type, **self._node_types}
            (self.dir / "autoscaler.json").write_text(json.dumps({**AUTOSCALER, "available_node_types": types}))
            options.append(f"--autoscaling-config={self.dir}/autoscaler.json")
        command = ["sh", "-c", HEAD, "head", str(self.dir), str(self.engine)]
        self._head = self._boot("head", command, "10.0.0.1", *options)
        head = children(self._head.pid)
        while not head:
            time.sleep(0.01)
            head = children(self._head.pid)
        script = self.dir / "python"
        script.write_text(PYTHON.format(dir=self.dir, python=self.python, head=head[0]))
        script.chmod(0o755)
        self._pid = head[0]
        self._until(lambda: "Ray runtime started" in self._log("head"))
        if self._node_types is None:
            self.restore()

    def _add(self, name: str, address: str) -> None:
        """Add a node, and connect it to the head."""
        gate = self.dir / f"{name}.gate"
        gate.unlink(missing_ok=True)
        subprocess.run(["mkfifo", str(gate)], check=True)
        command = ["sh", "-c", f'exec <"$0"; {NODE}', str(gate), address, str(self.dir), str(self.engine)]
        node = self._nodes[name] = self._boot(
            name, command, address, f"--address=10.0.0.1:{PORT}", f"--num-cpus={CPUS}"
        )
        while not (inner_pids := children(node.pid)):
            time.sleep(0.01)
        line = f"link add to-{name} type veth peer name eth0 netns {inner_pids[0]}\nlink set to-{name} master net0 up\n"
        enter = [*self._enter(), "ip", "-batch", "-"]
        subprocess.run(enter, input=line, text=True, env={"PATH": PATH}, check=True)
        gate.write_text("go\n")

    def _boot(self, name: str, command: list[str], address: str, *words: str) -> subprocess.Popen[bytes]:
        namespaces = ["--fork", "--kill-child", "--pid", "--net", "--mount", "--mount-proc"]
        common_options = [
            "--block",
            "--disable-usage-stats",
            "--object-store-memory=80000000",
            f"--node-ip-address={address}",
        ]
        env = [
            "env",
            "-i",
            f"PATH={PATH}",
            f"HOME={self.dir}",
            "LANG=C.UTF-8",
            *QUICK,
            *(("AUTOSCALER_UPDATE_INTERVAL_S=1", "RAY_FAKE_CLUSTER=1") if self._node_types is not None else ()),
            "RAY_USAGE_STATS_ENABLED=0",
        ]
        python = str(self.dir / "engine" / "bin" / "python")
        ray = [*env, python, "-m", "ray.scripts.scripts", "start", *common_options, *words]
        log = self.dir / f"{name}.log"
        log.write_bytes(b"")
        return start([program("unshare"), *namespaces, *command, *ray], log, farewell="KILL")

    def _enter(self) -> list[str]:
        return [program("nsenter"), f"--net=/proc/{self._pid}/ns/net"]

    def _wait(self, count: int) -> None:
        self._until(lambda: sum("Ray runtime started" in self._log(name) for name in ("head", *self._nodes)) >= count)

    def _until(self, condition: Any) -> None:
        deadline = time.monotonic() + STARTS
        while not condition():
            if time.monotonic() > deadline or (self._head and self._head.poll() is not None):
                raise RuntimeError("Ray did not start:\n" + "\n".join(self._log(n) for n in ("head", *self._nodes)))
            time.sleep(0.05)

    def _log(self, name: str) -> str:
        return (self.dir / f"{name}.log").read_text()

    def _end_bridges(self) -> None:
        file, renamed = self.dir / "bridges", self.dir / "bridges.ended"
        if file.exists():
            # Rename first: a killed bridge is replaced at once, and the new one is written to a new file.
            file.rename(renamed)
            for pid in renamed.read_text().split():
                if b"mngr.providers.ray.ray_calls" in _words(int(pid)):
                    kill(int(pid))


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
