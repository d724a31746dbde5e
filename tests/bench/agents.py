"""Measures Claude Code: the cost of `create` beyond the program's own start, and how soon the end of a turn is seen."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

from mngr.base import time_format
from mngr.testkit.modelserver import ModelServer
from tests.bench.measure import Case, Delay
from tests.bench.world import BIN, World
from tests.support.paths import ROOT

PLACE = ROOT / ".agents"
# The same by hand: the same program and configuration, and the first message as soon as it can be typed.
BARE = """
export MNGR_AGENT_DIR=$dir CLAUDE_CONFIG_DIR=$dir/claude
tmux -f /dev/null -S $dir/s new-session -d -s $name -x 200 -y 50 -c $repo claude --permission-mode manual
until [ -s $dir/status ]; do sleep 0.01; done
tmux -S $dir/s set-buffer -b $name hi \\; paste-buffer -p -d -b $name -t $name \\; send-keys -t $name Enter
until grep -q '"type":"message"' $dir/events.jsonl 2>/dev/null; do sleep 0.01; done
"""


def agents(world: World, repo: Path) -> list[Case | Delay]:
    """Measure everything about Claude Code."""
    with ModelServer([]) as model:
        path = f"{PLACE}/claude/node_modules/.bin:{world.env['PATH']}"
        env = {"PATH": path, "ANTHROPIC_BASE_URL": model.url("bench"), "ANTHROPIC_AUTH_TOKEN": "x"}
        return [_create(world, repo, env), *_turns(world, repo, env)]


def _create(world: World, repo: Path, env: dict[str, str], rounds: int = 5) -> Case:
    """Measure `create foo claude -m hi`."""
    case = Case("create claude -m, to its first message", times=1, more=0.300)
    for number in range(rounds + 1):
        name = f"c{number}"
        subject = world.mngr("create", name, "claude", "--no-connect", "-m", "hi", cwd=repo, env=env)
        (record,) = (world.home / "agents").glob("*/agent.json")
        work = Path(json.loads(record.read_text())["work_dir"])
        floor = _bare(world, record.parent, f"bare-{name}", work, env)
        world.mngr("destroy", "--force", name, env=env)
        if number:
            case.add(floor, subject)
    return case


def _turns(world: World, repo: Path, env: dict[str, str], rounds: int = 10) -> list[Delay]:
    """Measure from the agent's own event until `wait` ends and until `list` shows the new state."""
    world.mngr("create", "t", "claude", "--no-connect", "-m", "hi", cwd=repo, env=env)
    world.mngr("wait", "t", "--timeout", "20s")
    (record,) = (world.home / "agents").glob("*/agent.json")
    delays: list[Delay] = []
    for delay, description in ((1.0, "turn of a second"), (0.0, "turn of no time")):
        waits, lists = Delay(f"wait, after a {description}", 0.200), Delay(f"list, after a {description}", 1.0)
        script = json.dumps([{"text": "fine", "delay": delay}])
        for number in range(rounds):
            for see, case in ((_waited, waits), (_listed, lists)):
                world.mngr("message", "t", "-m", f"<fake>{script}</fake> {number}")
                case.delays.append(see(world, record.parent) - _ended(record.parent))
        delays += [waits, lists]
    world.mngr("destroy", "--force", "t")
    return delays


def _ended(directory: Path) -> float:
    rows = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
    return time_format.parse_timestamp([row["at"] for row in rows if row["type"] == "turn_end"][-1])


def _waited(world: World, directory: Path) -> float:
    world.mngr("wait", "t", "--timeout", "20s")
    return time.time()


def _listed(world: World, directory: Path) -> float:
    """Return when a `list` ended that showed the new state. The first `list` starts when the program reports it."""
    while '"WAITING"' not in (directory / "status").read_text():
        time.sleep(0.001)
    state = ""
    while state != "WAITING":
        completed = subprocess.run(
            [BIN / "mngr", "list", "--format", "json"], env=world.env, capture_output=True, check=True
        )
        (state,) = (agent["state"] for agent in json.loads(completed.stdout)["agents"])
    return time.time()


def _bare(world: World, agent_dir: Path, name: str, work: Path, env: dict[str, str]) -> float:
    directory = world.root / name
    (directory / "claude").mkdir(parents=True)
    for file in ("hook.sh", "claude/settings.json", "claude/.claude.json"):
        shutil.copy(agent_dir / file, directory / file)
    variables = {"dir": str(directory), "name": name, "repo": str(work)}
    elapsed = world.time("sh", "-c", BARE, env={**env, **variables})
    subprocess.run(["tmux", "-S", str(directory / "s"), "kill-server"], check=False, capture_output=True)
    return elapsed
