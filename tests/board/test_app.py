"""Tests the board with real agents: what it shows, and what each key does."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from mngr.agents.context import Context
from mngr.api import Fleet
from mngr.base.errors import UsageError
from mngr.board.agent_list import AgentList
from mngr.board.app import BoardApp, build_filter, choose_theme
from mngr.board.dialogs import HelpDialog, TextDialog
from mngr.board.keys import KEYS
from mngr.board.line_view import LineView
from mngr.board.run_screen import RunScreen
from mngr.overview.agent_cards import AgentFacts, build_card
from tests.conftest import MngrProgram
from tests.overview.test_agent_cards import make_view
from tests.support.hosts.sshd import Farm
from tests.support.runfolder import RunFolder

ASK = '[{"ask": "red or blue?"}, {"ask": "sure?"}]'
PERMISSION = '[{"write": {"path": "new.txt", "content": "a\\n"}}, {"commit": "x"}, {"permission": "may I?"}]'


class Board:
    """The board that runs, with what a person sees of it."""

    def __init__(self, app: BoardApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def list_text(self) -> str:
        return "\n".join(line.text.plain for line in self.list._lines)

    @property
    def list(self) -> AgentList:
        return self.app.screen_stack[0].query_one(AgentList)

    @property
    def tab_text(self) -> str:
        return self.app.screen_stack[0].query_one(LineView).plain_text

    def read(self, name: str) -> str:
        return str(self.app.screen_stack[0].query_one(f"#{name}", Static).content)

    async def wait_until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            shown = f"{self.list_text}\n---\n{self.tab_text}\n---\n{self.read('summary')}\n{self.read('news')}"
            assert time.monotonic() < deadline, shown
            await self.pilot.pause(0.02)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def select(self, name: str) -> None:
        """Move to an agent by its name, once it is in the list."""
        await self.wait_until(lambda: f"  {name} " in self.list_text or f"* {name} " in self.list_text)
        cards = {card.view.name: card.id for card in self.app._overview.agents}
        self.list.select(cards[name])
        await self.pilot.pause()


def play(
    mngr: MngrProgram,
    scenario: Callable[[Board], Awaitable[None]],
    *,
    size: tuple[int, int] = (120, 40),
    fleet: Fleet | None = None,
) -> None:
    """Run the board in the repository, without a terminal, while the scenario presses keys."""

    async def run() -> None:
        app = BoardApp(fleet or Fleet(home=str(mngr.home), cwd=str(mngr.repo)), root=str(mngr.repo))
        async with app.run_test(size=size) as pilot:
            await scenario(Board(app, pilot))

    asyncio.run(run())


def start_player(mngr: MngrProgram, name: str, steps: str) -> None:
    mngr("create", name, "player", "-m", "go", "--", steps)
    mngr("wait", name)


def test_agents_are_grouped_by_what_they_need_with_their_question(mngr: MngrProgram) -> None:
    start_player(mngr, "ask", ASK)
    mngr("create", "busy", "--", "sleep", "1000")
    mngr("create", "broken", "--", "false")

    async def scenario(board: Board) -> None:
        await board.wait_until(lambda: "red or blue?" in board.list_text and "broken" in board.list_text)
        headings = [line for line in board.list_text.splitlines() if line.endswith(")") and not line.startswith(" ")]
        assert headings == ["needs you (1)", "working (1)", "done, failed, stopped (1)"]
        assert "1 needs you" in board.read("summary")

    play(mngr, scenario)


def test_an_agent_that_somebody_else_creates_and_destroys_appears_and_leaves(mngr: MngrProgram) -> None:
    async def scenario(board: Board) -> None:
        await board.wait_until(lambda: "there are no agents" in board.read("summary"))
        await asyncio.to_thread(mngr, "create", "foo", "--", "sleep", "1000")
        await board.select("foo")
        await asyncio.to_thread(mngr, "destroy", "--force", "foo")
        await board.wait_until(lambda: "foo was destroyed" in board.read("news"))
        assert board.list_text == ""

    play(mngr, scenario)


def test_allow_answers_the_permission_question(mngr: MngrProgram) -> None:
    start_player(mngr, "ask", PERMISSION)

    async def scenario(board: Board) -> None:
        await board.select("ask")
        await board.wait_until(lambda: "may I?" in board.list_text)
        await board.press("a")
        await board.wait_until(lambda: "allowed ask" in board.read("news"))

    play(mngr, scenario)
    assert "yes" in mngr("transcript", "ask").out


@pytest.mark.web
def test_a_message_reaches_all_marked_agents(mngr: MngrProgram) -> None:
    for name in ("one", "two", "three"):
        start_player(mngr, name, ASK)

    async def scenario(board: Board) -> None:
        for name in ("one", "two"):
            await board.select(name)
            await board.press("space")
        await board.press("m")
        await board.wait_until(lambda: isinstance(board.app.screen, TextDialog))
        board.app.screen.query_one(Input).value = "blue please"
        await board.press("enter")
        await board.wait_until(lambda: "sent a message to" in board.read("news"))
        await board.wait_until(lambda: not board.list.marked)

    play(mngr, scenario)
    got_it = [name for name in ("one", "two", "three") if "blue please" in mngr("transcript", name).out]
    assert got_it == ["one", "two"]


@pytest.mark.web
def test_pull_fetches_the_commits(mngr: MngrProgram) -> None:
    start_player(mngr, "work", PERMISSION)

    async def scenario(board: Board) -> None:
        await board.select("work")
        await board.wait_until(lambda: "1 to pull" in board.list_text)
        await board.press("p")
        await board.wait_until(lambda: "pulled work (1 new commit" in board.read("news"))

    play(mngr, scenario)


def test_stop_start_and_label(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")

    async def scenario(board: Board) -> None:
        await board.select("foo")
        await board.press("s")
        await board.wait_until(lambda: "stopped" in board.list_text and "foo is STOPPED" in board.read("news"))
        await board.press("S")
        await board.wait_until(lambda: "working (1)" in board.list_text)
        await board.press("l")
        await board.wait_until(lambda: isinstance(board.app.screen, TextDialog))
        board.app.screen.query_one(Input).value = "team=red"
        await board.press("enter")
        await board.wait_until(lambda: "team=red" in board.read("detail-title"))

    play(mngr, scenario)


def test_destroy_asks_and_undo_restores(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")

    async def scenario(board: Board) -> None:
        await board.select("foo")
        await board.press("x", "n")
        await board.wait_until(lambda: len(board.app.screen_stack) == 1)
        assert "working (1)" in board.list_text
        await board.press("x", "y")
        await board.wait_until(lambda: board.list_text == "")
        await board.wait_until(lambda: "moved to the trash: foo" in board.read("news"))
        await board.press("u")
        await board.wait_until(lambda: "restored foo" in board.read("news"))

    play(mngr, scenario)
    assert mngr.get_agent("foo")["state"] == "STOPPED"


@pytest.mark.web
def test_a_confirmed_destroy_concerns_the_agent_that_the_question_named(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr("create", "goo", "--", "sleep", "1000")

    async def scenario(board: Board) -> None:
        await board.select("goo")
        await board.select("foo")
        await board.press("x")
        await board.wait_until(lambda: len(board.app.screen_stack) == 2)
        board.list.move(1)  # as if the list had changed behind the question
        await board.press("y")
        await board.wait_until(lambda: "moved to the trash: foo" in board.read("news"))

    play(mngr, scenario)
    assert [agent["name"] for agent in mngr.list_agents()] == ["goo"]


@pytest.mark.web
def test_a_key_does_nothing_when_the_selection_has_just_moved_by_itself(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr("create", "goo", "--", "sleep", "1000")

    async def scenario(board: Board) -> None:
        await board.select("goo")
        await board.select("foo")
        cards = [card for card in board.app._overview.agents if card.view.name == "goo"]
        board.list.show_cards(cards, ())
        await board.press("s")
        await board.wait_until(lambda: "look at the new selection" in board.read("news"))

    play(mngr, scenario)
    assert mngr.get_agent("goo")["state"] == "RUNNING"


@pytest.mark.web
def test_leaving_the_board_does_not_interrupt_an_action(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")

    async def scenario(board: Board) -> None:
        await board.select("foo")
        await board.press("x", "y")
        began_or_ended = ("destroy: 1 agent", "moved to the trash: foo")
        await board.wait_until(lambda: any(text in board.read("news") for text in began_or_ended))

    play(mngr, scenario)
    for thread in threading.enumerate():
        if thread.name.startswith("mngr action"):
            assert not thread.daemon  # so Python waits for the action
            thread.join(30.0)
    assert mngr.list_agents() == []


def test_a_failed_action_says_why_and_the_board_goes_on(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")

    async def scenario(board: Board) -> None:
        await board.select("foo")
        await board.press("a")
        await board.wait_until(lambda: "foo" in board.read("news") and "Traceback" not in board.read("news"))
        await board.press("l")
        board.app.screen.query_one(Input).value = "not a label"
        await board.press("enter")
        await board.wait_until(lambda: "is not a label" in board.read("news"))

    play(mngr, scenario)


@pytest.mark.web
def test_each_tab_shows_its_part_of_the_agent(mngr: MngrProgram) -> None:
    start_player(mngr, "work", PERMISSION)
    expected = {"1": "may I?", "2": "assistant", "3": "+++ b/new.txt", "4": "turn_end", "5": "work is WAITING"}

    async def scenario(board: Board) -> None:
        await board.select("work")
        for key, text in expected.items():
            await board.press(key)
            await board.wait_until(lambda text=text: text in board.tab_text)  # type: ignore[misc]

    play(mngr, scenario)


@pytest.mark.web
def test_an_agent_that_is_destroyed_while_it_is_shown_leaves_its_tab(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sh", "-c", "echo hello; sleep 1000")

    async def scenario(board: Board) -> None:
        await board.select("foo")
        await board.wait_until(lambda: "hello" in board.tab_text)
        await asyncio.to_thread(mngr, "destroy", "--force", "foo")
        await board.wait_until(lambda: board.read("detail-title") == "no agent is selected")
        assert board.tab_text == ""

    play(mngr, scenario)


@pytest.mark.web
def test_a_host_that_dies_while_its_agent_is_shown_is_named_and_the_board_goes_on(
    mngr: MngrProgram, farm: Farm
) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    mngr("create", "away@h1", "--transfer", "copy", "--", "sh", "-c", "echo hello; sleep 1000")
    mngr("create", "here", "--", "sleep", "1000")
    context = Context(str(mngr.home), cwd=str(mngr.repo), settings=[f"providers.ssh.config={farm.config}"])

    async def scenario(board: Board) -> None:
        await board.select("away")
        await board.wait_until(lambda: "hello" in board.tab_text)
        farm.cut("h1")
        await board.wait_until(lambda: "h1:" in board.read("summary"), 60.0)
        await board.wait_until(lambda: "unknown (its host does not answer)" in board.list_text)
        await board.press("5")
        await board.wait_until(lambda: "hello" not in board.tab_text and board.tab_text, 60.0)
        await board.select("here")
        await board.wait_until(lambda: "here is RUNNING" in board.tab_text)
        farm.mend("h1")
        await board.wait_until(lambda: "h1:" not in board.read("summary"), 60.0)

    play(mngr, scenario, fleet=Fleet(context=context))


def test_a_screen_full_of_escape_sequences_is_shown_as_text(mngr: MngrProgram) -> None:
    flood = (
        r"for i in $(seq 300); do printf '\033[31mred\033]0;t\007\033[?1049h\033(0 %d\n' $i; done; echo end; sleep 1000"
    )
    mngr("create", "foo", "--", "sh", "-c", flood)

    async def scenario(board: Board) -> None:
        await board.select("foo")
        await board.wait_until(lambda: "end" in board.tab_text)
        assert "\x1b" not in board.tab_text

    play(mngr, scenario)


@pytest.mark.web
def test_the_diff_of_a_hundred_thousand_lines_is_cut(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    (mngr.get_work_dir("foo") / "big.txt").write_text("".join(f"line {n}\n" for n in range(100_000)))

    async def scenario(board: Board) -> None:
        await board.select("foo")
        await board.press("v")
        await board.wait_until(lambda: "more lines are not shown" in board.tab_text)
        await board.press("ctrl+d")
        assert board.app.screen_stack[0].query_one(LineView).scroll_offset.y == 10

    play(mngr, scenario)


@pytest.mark.web
def test_a_filter_shows_only_matching_agents(mngr: MngrProgram) -> None:
    mngr("create", "red-1", "--label", "team=red", "--", "sleep", "1000")
    mngr("create", "blue-1", "--", "sleep", "1000")

    async def scenario(board: Board) -> None:
        await board.select("blue-1")
        await board.press("slash")
        board.app.screen.query_one(Input).value = "labels.team == red"
        await board.press("enter")
        await board.wait_until(lambda: "blue-1" not in board.list_text and "red-1" in board.list_text)
        assert "(1 of 2)" in board.read("summary")
        await board.press("slash")
        board.app.screen.query_one(Input).value = "state ==="
        await board.press("enter")
        await board.wait_until(lambda: "--filter" in board.read("news"))
        await board.press("escape")
        await board.wait_until(lambda: "blue-1" in board.list_text)

    play(mngr, scenario)


def test_next_visits_every_agent_that_needs_a_person(mngr: MngrProgram) -> None:
    for name in ("one", "two"):
        start_player(mngr, name, ASK)
    start_player(mngr, "urgent", PERMISSION)
    mngr("create", "busy", "--", "sleep", "1000")

    async def scenario(board: Board) -> None:
        await board.select("busy")
        await board.wait_until(lambda: "needs you (3)" in board.list_text)
        visited = []
        for _ in range(4):
            await board.press("n")
            visited.append(
                next(card.view.name for card in board.app._overview.agents if card.id == board.list.selected)
            )
        assert visited == ["urgent", "one", "two", "urgent"]

    play(mngr, scenario)


@pytest.mark.web
def test_the_selection_stays_on_its_agent_when_the_list_changes(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr("create", "goo", "--", "sleep", "1000")

    async def scenario(board: Board) -> None:
        await board.select("goo")
        selected = board.list.selected
        await asyncio.to_thread(mngr, "stop", "foo")
        await board.wait_until(lambda: "stopped" in board.list_text)
        assert board.list.selected == selected

    play(mngr, scenario)


@pytest.mark.web
def test_a_click_selects_an_agent(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr("create", "goo", "--", "sleep", "1000")

    async def scenario(board: Board) -> None:
        await board.select("foo")
        await board.wait_until(lambda: "  goo " in board.list_text)
        await board.pilot.click("#agents", offset=(4, 2))
        await board.wait_until(lambda: "goo" in board.read("detail-title"))

    play(mngr, scenario)


@pytest.mark.web
def test_a_run_opens_with_its_tasks(mngr: MngrProgram) -> None:
    folder = RunFolder(mngr.repo, "nightly")
    folder.fill(30)
    folder.write()
    plan = Path(folder.run.plan)
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "limits": {"budget": 12.5}}))

    async def scenario(board: Board) -> None:
        await board.wait_until(lambda: "nightly" in board.list_text)
        await board.press("enter")
        await board.wait_until(lambda: isinstance(board.app.screen, RunScreen))
        await board.wait_until(lambda: "30 of 30" in board.app.screen.query_one(LineView).plain_text)
        text = board.app.screen.query_one(LineView).plain_text
        assert "1 root cause, shared by 9 tests" in text and "tokens, $" in text and "tasks (30)" in text
        assert "open         9 tests: KeyError in shop.py:2 price: 'tea'" in text
        assert "budget in the plan: $12.50" in text
        await board.press("q")
        await board.wait_until(lambda: len(board.app.screen_stack) == 1)

    play(mngr, scenario)


def test_the_help_lists_every_key(mngr: MngrProgram) -> None:
    async def scenario(board: Board) -> None:
        await board.press("question_mark")
        await board.wait_until(lambda: isinstance(board.app.screen, HelpDialog))
        shown = [str(line.content) for line in board.app.screen.query(Static)]
        assert len(shown) == len(KEYS)
        await board.press("escape")
        await board.wait_until(lambda: len(board.app.screen_stack) == 1)

    play(mngr, scenario)


@pytest.mark.web
@pytest.mark.parametrize(("size", "layout"), [((140, 40), "wide"), ((80, 24), "narrow"), ((20, 5), "too-small")])
def test_the_board_fits_the_terminal(mngr: MngrProgram, size: tuple[int, int], layout: str) -> None:
    mngr("create", "foo", "--", "sleep", "1000")

    async def scenario(board: Board) -> None:
        await board.select("foo")
        main = board.app.screen_stack[0]
        assert main.has_class("too-small") == (layout == "too-small")
        if layout != "too-small":
            assert main.query_one("#panes").has_class(layout)
            assert board.list.size.height >= 6 and main.query_one(LineView).size.height >= 4
        else:
            assert "20 columns and 5 lines" in board.read("too-small")
        await board.pilot.resize_terminal(100, 30)
        await board.wait_until(lambda: not main.has_class("too-small"))

    play(mngr, scenario, size=size)


def test_a_word_filters_by_name_and_an_expression_by_fields() -> None:
    card = build_card(make_view("fix-cart", "DONE"), AgentFacts(unpulled=2, cost_usd=1.5))
    assert build_filter("")(card) and build_filter("CART")(card) and not build_filter("api")(card)
    assert build_filter("unpulled > 1 and usage.cost_usd > 1")(card)
    assert not build_filter("state == RUNNING")(card)
    with pytest.raises(UsageError):
        build_filter("colour == red")


def test_the_theme_follows_the_background_of_the_terminal() -> None:
    assert [choose_theme(text) for text in ("15;0", "0;15", "0;default;15", "")] == [
        "textual-dark", "textual-light", "textual-light", "textual-dark",
    ]  # fmt: skip
