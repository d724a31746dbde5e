"""Claude Code: what making one adds to the program's own start, and how soon others see that its turn ended."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

from mngr.base import clock
from mngr.testkit.modelserver import ModelServer
from tests.bench.measure import Case, Delay
from tests.bench.world import BIN, World
from tests.support.paths import ROOT

PLACE = ROOT / ".agents"
# By hand: the same program with the same configuration, and the same first message as soon as it can be typed.
BARE = """
export MNGR_AGENT_DIR=$dir CLAUDE_CONFIG_DIR=$dir/claude
tmux -f /dev/null -S $dir/s new-session -d -s $name -x 200 -y 50 -c $repo claude --permission-mode manual
until [ -s $dir/status ]; do sleep 0.01; done
tmux -S $dir/s set-buffer -b $name hi \\; paste-buffer -p -d -b $name -t $name \\; send-keys -t $name Enter
until grep -q '"type":"message"' $dir/events.jsonl 2>/dev/null; do sleep 0.01; done
"""


def agents(world: World, repo: Path) -> list[Case | Delay]:
    """Everything about Claude Code."""
    with ModelServer([]) as model:
        path = f"{PLACE}/claude/node_modules/.bin:{world.env['PATH']}"
        env = {"PATH": path, "ANTHROPIC_BASE_URL": model.url("bench"), "ANTHROPIC_AUTH_TOKEN": "x"}
        return [_create(world, repo, env), *_turns(world, repo, env)]


def _create(world: World, repo: Path, env: dict[str, str], rounds: int = 5) -> Case:
    """`create foo claude -m hi`."""
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
    """From the moment that the agent's own event names: until `wait` is over, until `list` has shown it."""
    world.mngr("create", "t", "claude", "--no-connect", "-m", "hi", cwd=repo, env=env)
    world.mngr("wait", "t", "--timeout", "20s")
    (record,) = (world.home / "agents").glob("*/agent.json")
    found: list[Delay] = []
    for delay, what in ((1.0, "turn of a second"), (0.0, "turn of no time")):
        waits, lists = Delay(f"wait, after a {what}", 0.200), Delay(f"list, after a {what}", 1.0)
        script = json.dumps([{"text": "fine", "delay": delay}])
        for number in range(rounds):
            for see, case in ((_waited, waits), (_listed, lists)):
                world.mngr("message", "t", "-m", f"<fake>{script}</fake> {number}")
                case.delays.append(see(world, record.parent) - _ended(record.parent))
        found += [waits, lists]
    world.mngr("destroy", "--force", "t")
    return found


def _ended(directory: Path) -> float:
    rows = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
    return clock.parse_timestamp([row["at"] for row in rows if row["type"] == "turn_end"][-1])


def _waited(world: World, directory: Path) -> float:
    world.mngr("wait", "t", "--timeout", "20s")
    return time.time()


def _listed(world: World, directory: Path) -> float:
    """When a `list` was over that showed it; the first begins as the program says so."""
    while '"WAITING"' not in (directory / "status").read_text():
        time.sleep(0.001)
    state = ""
    while state != "WAITING":
        done = subprocess.run(
            [BIN / "mngr", "list", "--format", "json"], env=world.env, capture_output=True, check=True
        )
        (state,) = (agent["state"] for agent in json.loads(done.stdout)["agents"])
    return time.time()


def _bare(world: World, made: Path, name: str, work: Path, env: dict[str, str]) -> float:
    directory = world.root / name
    (directory / "claude").mkdir(parents=True)
    for file in ("hook.sh", "claude/settings.json", "claude/.claude.json"):
        shutil.copy(made / file, directory / file)
    words = {"dir": str(directory), "name": name, "repo": str(work)}
    took = world.time("sh", "-c", BARE, env={**env, **words})
    subprocess.run(["tmux", "-S", str(directory / "s"), "kill-server"], check=False, capture_output=True)
    return took
