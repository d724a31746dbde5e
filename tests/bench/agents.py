"""What making a coding agent adds to the program's own start: Claude Code, up to the moment that it has its first message."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from mngr.modelserver import ModelServer
from tests.bench.measure import Case
from tests.bench.world import World

PLACE = Path(__file__).parents[2] / ".agents"
# By hand: the same program with the same configuration, and the same first message as soon as it can be typed.
BARE = """
export MNGR_AGENT_DIR=$dir CLAUDE_CONFIG_DIR=$dir/claude
tmux -f /dev/null -S $dir/s new-session -d -s $name -x 200 -y 50 -c $repo claude --permission-mode manual
until [ -s $dir/status ]; do sleep 0.01; done
tmux -S $dir/s set-buffer -b $name hi \\; paste-buffer -p -d -b $name -t $name \\; send-keys -t $name Enter
until grep -q '"type":"message"' $dir/events.jsonl 2>/dev/null; do sleep 0.01; done
"""


def agents(world: World, repo: Path, rounds: int = 5) -> list[Case]:
    """`create foo claude -m hi`."""
    case = Case("create claude -m, to its first message", times=1, more=0.300)
    with ModelServer([]) as model:
        path = f"{PLACE}/claude/node_modules/.bin:{world.env['PATH']}"
        env = {"PATH": path, "ANTHROPIC_BASE_URL": model.url("bench"), "ANTHROPIC_AUTH_TOKEN": "x"}
        for number in range(rounds + 1):
            name = f"c{number}"
            subject = world.mngr("create", name, "claude", "--no-connect", "-m", "hi", cwd=repo, env=env)
            (record,) = (world.home / "agents").glob("*/agent.json")
            work = Path(json.loads(record.read_text())["work_dir"])
            floor = _bare(world, record.parent, f"bare-{name}", work, env)
            world.mngr("destroy", "--force", name, env=env)
            if number:
                case.add(floor, subject)
    return [case]


def _bare(world: World, made: Path, name: str, work: Path, env: dict[str, str]) -> float:
    directory = world.root / name
    (directory / "claude").mkdir(parents=True)
    for file in ("hook.sh", "claude/settings.json", "claude/.claude.json"):
        shutil.copy(made / file, directory / file)
    words = {"dir": str(directory), "name": name, "repo": str(work)}
    took = world.time("sh", "-c", BARE, env={**env, **words})
    subprocess.run(["tmux", "-S", str(directory / "s"), "kill-server"], check=False, capture_output=True)
    return took
