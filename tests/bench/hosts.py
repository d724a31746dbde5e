"""Measures commands on other hosts, against bare `ssh` over its own shared connections."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.bench.measure import Case
from tests.bench.world import World
from tests.support.hosts.sshd import Farm


class Away:
    """Ten ssh hosts with an mngr home that knows them, and bare connections to the same hosts."""

    def __init__(self, world: World, farm: Farm) -> None:
        self.world = world
        self.farm = farm
        home = world.root / "away"
        home.mkdir()
        (home / "settings.toml").write_text(f'[providers.ssh]\nconfig = "{farm.config}"\n')
        self.env = {"MNGR_HOME": str(home)}
        self._places = Path("/tmp") / f"mngr-bench-{os.getpid()}"
        self._places.mkdir(mode=0o700)
        for name in farm.names:
            subprocess.run([*self.ssh(), "-M", "-N", "-f", name], stderr=subprocess.DEVNULL, check=True)

    def ssh(self) -> list[str]:
        """Return a bare ssh command over its own shared connection. Options and the host follow."""
        return ["ssh", "-F", str(self.farm.config), "-o", f"ControlPath={self._places}/%n"]

    def mngr(self, *words: str, cwd: Path | None = None) -> float:
        return self.world.mngr(*words, cwd=cwd, env=self.env)

    def start(self) -> float:
        """Return what mngr costs before it does anything, with these settings."""
        return min(self.mngr("config", "get", "providers.ssh.config") for _ in range(20))

    def close(self) -> None:
        for name in self.farm.names:
            subprocess.run([*self.ssh(), "-O", "exit", name], capture_output=True, check=False)
        for control_path in self._places.iterdir():
            control_path.unlink()
        self._places.rmdir()


def many_hosts(away: Away, repo: Path) -> list[Case]:
    """Measure `list` over ten hosts with ten agents each, and `exec` on one of them."""
    for name in away.farm.names:
        away.mngr("create", f"{name}@{name}", "--count", "10", "--", "sleep", "1000", cwd=repo)
    start = away.start()
    script = 'tmux -S "$(readlink ~/.mngr/tmux.socket)" list-panes -a; cat ~/.mngr/agents/*/agent.json'
    ssh = " ".join(away.ssh())
    loop = f"for h in {' '.join(away.farm.names)}; do {ssh} $h '{script}' & done; wait"
    listed = Case("list, 10 ssh hosts, 100 agents", times=1.5, more=start)
    listed.alternate(lambda: away.world.time("sh", "-c", loop), lambda: away.mngr("list"), 20)
    first = away.farm.names[0]
    executed = Case("exec over ssh", times=1.3, more=start)
    executed.alternate(
        lambda: away.world.time(*away.ssh(), first, "/bin/true"),
        lambda: away.mngr("exec", f"{first}-1", "--", "true"),
        40,
    )
    return [listed, executed]


def hosts(world: World, repo: Path) -> list[Case]:
    """Measure everything about other hosts."""
    from tests.bench.moving import moving

    with Farm(10) as farm:
        away = Away(world, farm)
        try:
            return [*many_hosts(away, repo), *moving(away, repo)]
        finally:
            away.close()
