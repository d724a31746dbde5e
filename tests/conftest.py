"""The common fixtures: a fresh home, a fresh repository, the real program, real git and tmux."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from mngr.testkit.contract.mngr_program import (
    BIN_DIR,
    IS_FULL_SCALE,
    MngrProgram,
    ProgramResult,
    clean_up,
    kill_tmux_servers,
    new_env,
    new_repo,
    run_git,
    wait_for,
)
from tests.support import targets

pytest_plugins = ["tests.support.hosts.fixtures"]

__all__ = [
    "BIN_DIR",
    "IS_FULL_SCALE",
    "MngrProgram",
    "ProgramResult",
    "kill_tmux_servers",
    "run_git",
    "wait_for",
]

settings.register_profile(
    "mngr",
    max_examples=1000 if IS_FULL_SCALE else 60,
    derandomize=not IS_FULL_SCALE,
    deadline=None,
    database=None,
)
settings.load_profile("mngr")


ROOT = os.getcwd()
SEED = os.environ.get("MNGR_TEST_SEED", "0")


def reset_signals() -> None:
    """Give the programs that tests start the default SIGINT, SIGQUIT and SIGHUP.

    A shell starts its background jobs with SIGINT and SIGQUIT ignored, and nohup ignores SIGHUP. Programs inherit ignored
    signals, and a shell cannot trap them. No program inherits a handler, so this process may still survive a hangup.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    is_worker = "PYTEST_XDIST_WORKER" in os.environ  # a worker ends with the process that started it
    if is_worker or signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


reset_signals()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--agents", default="claude codex opencode", help="the coding agents to run for real")
    parser.addoption(
        "--modal",
        default="ours",
        choices=("ours", "real"),
        help="which control plane; the real one costs money",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: long, and much of it is checked elsewhere; in make test-all only")
    for name, meaning in targets.MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.addinivalue_line(
        "markers", "sampled(n): one of n is run, chosen by MNGR_TEST_SEED; in make test-all, all are"
    )


FAILED_TESTS: dict[str, None] = {}  # the ids of failed tests, in order


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        FAILED_TESTS[report.nodeid] = None


def pytest_sessionfinish() -> None:
    """Write the failed tests to a file, if scripts/test_with_engines.py asks for it."""
    path = os.environ.get("MNGR_FAILED_TESTS")
    if path and "PYTEST_XDIST_WORKER" not in os.environ:
        Path(path).write_text("".join(f"{test}\n" for test in FAILED_TESTS))


def pytest_report_header() -> str:
    return f"scale: {'full' if IS_FULL_SCALE else f'a sample, MNGR_TEST_SEED={SEED}'}"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test by the fixtures it uses and by the folder it is in."""
    for name in targets.find_markers(getattr(item, "fixturenames", ())):
        item.add_marker(name)
    if marker := targets.find_folder_marker(item.nodeid):
        item.add_marker(marker)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> None:
    """Reject a test that asks for a fixture by name while it runs, and so has not got its marker."""
    for name in targets.find_markers([fixturedef.argname]):
        test = request._pyfuncitem
        if test.get_closest_marker(name) is None:
            pytest.fail(f"{test.nodeid} uses {fixturedef.argname}: mark it with pytest.mark.{name}", pytrace=False)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect long tests and those not drawn, unless the user names tests with -k."""
    if not IS_FULL_SCALE and not config.option.keyword:
        deselected = [item for item in items if item.get_closest_marker("full") or not is_drawn(item)]
        items[:] = [item for item in items if item not in deselected]
        config.hook.pytest_deselected(items=deselected)


def is_drawn(item: pytest.Item) -> bool:
    """True when the seed selects this test, or the test is not sampled."""
    marker = item.get_closest_marker("sampled")
    if marker is None:
        return True
    digest = hashlib.sha256(f"{SEED} {item.nodeid}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % int(marker.args[0]) == 0


@pytest.fixture(autouse=True)
def _stay() -> Iterator[None]:
    """Check that the test did not change the current directory."""
    yield
    assert os.getcwd() == ROOT


@pytest.fixture(scope="session")
def example_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the example plugin as pip installs it. Nothing is downloaded."""
    site_dir = tmp_path_factory.mktemp("site")
    source = Path(__file__).parents[1] / "examples" / "mngr-example"
    flags = ["-q", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([BIN_DIR / "python", "-m", "pip", "install", *flags, "--target", site_dir, source], check=True)
    return site_dir


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment without anything of the person who runs the tests."""
    return new_env(tmp_path)


@pytest.fixture
def repo(tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository with one commit."""
    return new_repo(tmp_path, env, monkeypatch)


@pytest.fixture
def mngr(tmp_path: Path, repo: Path, env: dict[str, str]) -> Iterator[MngrProgram]:
    """The program. Afterwards everything that it started is removed."""
    yield MngrProgram(repo, Path(env["MNGR_HOME"]), env)
    clean_up(tmp_path)
