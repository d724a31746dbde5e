"""Trials in real clean rooms: what each sees, what the next one finds, and what a hostile test cannot do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox
from mngr.tmr.runners.pytest.runner import PytestOptions, PytestRunner
from mngr.tmr.runners.pytest.trials import FileEdit, Trial, TrialRun, run_trials
from tests.tmr.world import PYTEST, World, new_world

pytestmark = pytest.mark.agents

SHOP = "def total(prices):\n    return sum(prices)\n"
TESTS = """
    import os
    import pathlib
    import shutil
    import signal
    import subprocess
    import sys

    from shop import total


    def test_total():
        assert total([1, 2]) == 3


    def test_program():
        text = subprocess.check_output([sys.executable, "-c", "import shop; print(shop.total([1, 2]))"], text=True)
        assert text == "3\\n"


    def test_leaves_things():
        for note in (pathlib.Path("note"), pathlib.Path("/tmp/note"), pathlib.Path.home() / "note"):
            assert not note.exists()
            note.write_text("seen")
        pathlib.Path("shop.py").write_text("broken")
        pathlib.Path("made").mkdir()
        subprocess.Popen(["sleep", "1000"], start_new_session=True)


    def test_changes_a_large_file():
        large = pathlib.Path("large.txt")
        assert large.stat().st_size == 1_100_000
        large.write_text("small")


    def test_never_ends():
        signal.pause()


    def test_exits():
        os._exit(0)


    def test_writes_to_the_driver():
        for fd in os.listdir(f"/proc/{os.getppid()}/fd"):
            with open(f"/proc/{os.getppid()}/fd/{fd}", "w") as file:
                file.write('{"trial": 1, "problem": "", "lost": []}')


    def test_writes_to_every_process():
        for process in os.listdir("/proc"):
            if process.isdigit() and int(process) != os.getpid():
                for fd in range(40):
                    try:
                        stream = os.open(f"/proc/{process}/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK)
                        os.write(stream, b'\\n{"trial": 0, "problem": "forged", "lost": []}\\n')
                    except OSError:
                        pass


    def test_replaces_a_directory():
        shutil.rmtree("package")
        os.makedirs("node_modules/evil")
        pathlib.Path("node_modules/evil/extra.py").write_text("")
        os.symlink("node_modules/evil", "package")


    def test_finds_its_directory():
        assert not os.path.islink("package")


    def test_kills_the_driver():
        os.kill(os.getppid(), signal.SIGKILL)
    """


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with new_world(
        tmp_path_factory.mktemp("trials"),
        {"shop.py": SHOP, "tests/test_shop.py": TESTS, "large.txt": "x" * 1_100_000, "package/app.py": "x = 1\n"},
        CleanRoomSandbox(),
    ) as new:
        yield new


def run(world: World, trials: Sequence[Trial], budget: float = 60.0) -> list[TrialRun | None]:
    return run_trials(world.room, PytestOptions(pytest=PYTEST), world.test("test_total"), trials, budget=budget)


def outcomes(world: World, trials: Sequence[Trial]) -> list[str]:
    return ["not run" if trial_run is None else trial_run.run.outcome for trial_run in run(world, trials)]


def trial(world: World, name: str = "test_total", timeout: float = 30.0, **fields: Any) -> Trial:
    return Trial(tests=[world.test(name).id], timeout=timeout, **fields)


def test_a_fault_reaches_the_test_and_the_programs_that_it_starts_but_not_the_next_trial(world: World) -> None:
    fault = [FileEdit(path="shop.py", start=SHOP.index("sum"), end=SHOP.index("sum") + 3, new="min")]
    trials = [trial(world, name, edits=edits) for name in ("test_total", "test_program") for edits in (fault, [])]
    assert outcomes(world, trials) == ["fail", "pass", "fail", "pass"]


def test_a_trial_with_a_replaced_and_a_removed_file_sees_these(world: World) -> None:
    assert outcomes(
        world, [trial(world, files={"shop.py": "total = max\n"}), trial(world, files={"shop.py": None})]
    ) == ["fail", "error"]


def test_nothing_that_a_trial_leaves_reaches_the_next_one(world: World) -> None:
    results = run(world, [trial(world, "test_leaves_things"), trial(world, "test_leaves_things"), trial(world)])
    assert [result and result.run.outcome for result in results] == ["pass"] * 3
    assert [result and result.run.left for result in results] == [1, 1, 0]


def test_a_large_file_that_a_trial_changes_is_restored_by_the_next_command(world: World) -> None:
    changing = trial(world, "test_changes_a_large_file")
    assert outcomes(world, [changing, changing, trial(world)]) == ["pass"] * 3


def test_a_trial_that_does_not_end_is_stopped_and_the_next_one_runs(world: World) -> None:
    assert outcomes(world, [trial(world, "test_never_ends", timeout=1.0), trial(world)]) == ["timeout", "pass"]


def test_a_test_that_exits_early_has_crashed_whatever_its_exit_code(world: World) -> None:
    assert outcomes(world, [trial(world, "test_exits")]) == ["crash"]


def test_a_test_cannot_write_a_result_of_another_trial(world: World) -> None:
    assert outcomes(world, [trial(world, "test_writes_to_the_driver"), trial(world)]) == ["fail", "pass"]


def test_a_test_that_kills_the_driver_leaves_no_result(world: World) -> None:
    assert outcomes(world, [trial(world, "test_kills_the_driver"), trial(world)]) == ["not run", "not run"]


def test_trials_beyond_the_budget_do_not_run_unless_they_are_always_wanted(world: World) -> None:
    results = run(world, [trial(world), trial(world, always=True)], budget=0.0)
    assert [result and result.run.outcome for result in results] == [None, "pass"]


def test_a_traced_trial_reports_the_lines_of_its_programs(world: World) -> None:
    [result] = run(world, [trial(world, "test_program", trace=True)])
    assert result is not None
    assert result.run.lines["shop.py"] == [1, 2]


def test_a_test_cannot_write_a_result_through_any_process(world: World) -> None:
    results = run(world, [trial(world), trial(world, "test_writes_to_every_process"), trial(world)])
    assert [result and result.problem for result in results] == ["", "", ""]


def test_a_link_in_place_of_a_directory_does_not_reach_the_next_trial(world: World) -> None:
    assert outcomes(world, [trial(world, "test_replaces_a_directory"), trial(world, "test_finds_its_directory")]) == [
        "pass",
        "pass",
    ]


def test_a_trial_skips_the_summaries_of_installed_plugins_but_not_the_projects_own(tmp_path: Path) -> None:
    summary = "def pytest_terminal_summary(terminalreporter):\n    terminalreporter.write_line('{text}')\n"
    files = {
        "shop.py": SHOP,
        "tests/test_shop.py": "def test_total():\n    pass\n",
        "conftest.py": summary.format(text="of the project"),
        "installed/summary_plugin.py": summary.format(text="of a plugin"),
        "installed/summary-1.0.dist-info/entry_points.txt": "[pytest11]\nsummary = summary_plugin\n",
        "installed/summary-1.0.dist-info/METADATA": "Name: summary\nVersion: 1.0\n",
    }
    with new_world(tmp_path, files) as world:
        world.room.env = {"PYTHONPATH": "installed", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": ""}
        whole = PytestRunner(PytestOptions(pytest=PYTEST)).run_test(world.room, world.test("test_total"))
        (result,) = run(world, [trial(world)])
    assert "of the project" in whole.output and "of a plugin" in whole.output
    assert result is not None and result.run.outcome == "pass"
    assert "of the project" in result.output and "of a plugin" not in result.output
