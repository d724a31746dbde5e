"""photograph_board.py FILE: open the board on agents in different states, and write its picture as SVG.

It starts scripted agents in a new home, so the picture shows a real session. No model and no account is needed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mngr.api import Fleet
from mngr.board.agent_list import AgentList
from mngr.board.app import BoardApp
from mngr.board.line_view import LineView

SIZE = (128, 26)
PROGRAM = Path(sys.executable).parent / "mngr"
CART = "def total(items):\n    return sum(item.price for item in items)\n"
TEST = "from cart import total\n\n\ndef test_an_empty_cart_costs_nothing():\n    assert total([]) == 0\n"
USAGE = {"model": "claude-sonnet-4-5", "input_tokens": 182_000, "output_tokens": 9_400}
AGENTS: dict[str, list[object]] = {
    "fix-cart": [
        {"spend": USAGE}, {"write": {"path": "cart.py", "content": CART}}, {"commit": "Add the prices of all items"},
        {"reply": "total() now adds the prices. I want to run the whole suite before I continue."},
        {"permission": "Bash: pip install --upgrade requests && pytest -q"},
    ],
    "rename-api": [{"ask": "Shall I keep the old name as an alias for one release, or remove it now?"}],
    "empty-cart": [
        {"write": {"path": "test_cart.py", "content": TEST}}, {"commit": "Test the empty cart"}, {"reply": "Done."}, {"exit": 0},
    ],
    "speed-up": [{"reply": "I measure the slowest tests first."}, "hang"],
    "docs": [{"park": {"reason": "quota", "seconds": 2_700}}],
}  # fmt: skip


def run_mngr(place: Path, *words: str) -> None:
    subprocess.run([str(PROGRAM), *words], cwd=place / "shop", check=True, stdout=subprocess.DEVNULL)


def start_agents(place: Path) -> None:
    """Create a repository and the agents, and wait until each has its state."""
    shop = place / "shop"
    shop.mkdir()
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "Open the shop"]):
        subprocess.run(
            ["git", "-C", str(shop), "-c", "user.name=Ann", "-c", "user.email=ann@example.invalid", *words], check=True
        )
    for name, steps in AGENTS.items():
        run_mngr(place, "-q", "create", name, "player", "--no-connect", "-m", "go", "--", json.dumps(steps))
    run_mngr(place, "-q", "create", "lint", "--no-connect", "--", "sh", "-c", "echo '3 errors'; exit 1")
    waiting = [name for name in AGENTS if name != "speed-up"]
    run_mngr(place, "wait", *waiting, "lint", "--timeout", "60s")


async def photograph(place: Path) -> str:
    """Return the board as SVG, once it shows the question and the screen of the first agent."""
    app = BoardApp(Fleet(home=str(place / "home"), cwd=str(place / "shop")))
    async with app.run_test(size=SIZE) as pilot:
        deadline = time.monotonic() + 60.0
        while True:
            await pilot.pause(0.1)
            lines = "\n".join(line.text.plain for line in app.query_one(AgentList)._lines)
            is_shown = all(text in lines for text in ("pip install", "one release", "to pull", "parked until", "+2"))
            if is_shown and "run the whole suite" in app.query_one(LineView).plain_text:
                return app.export_screenshot(title="mngr board")
            if time.monotonic() > deadline:
                raise SystemExit(f"the board does not show all agents, but:\n{lines}")


def main() -> None:
    """Start the agents, write the picture, and destroy the agents."""
    target = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory(prefix="mngr-board.") as folder:
        place = Path(folder)
        os.environ["MNGR_HOME"] = str(place / "home")
        try:
            start_agents(place)
            svg = asyncio.run(photograph(place))
        finally:
            run_mngr(place, "-q", "destroy", "--force", *AGENTS, "lint")
    # A picture must not load fonts from another server.
    target.write_text(re.sub(r"@font-face\s*\{.*?\}\s*", "", svg, flags=re.DOTALL))


if __name__ == "__main__":
    main()
