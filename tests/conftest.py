"""What every test starts from: a fresh home, a fresh repository, the real program, real git and tmux."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from mngr.contract.program import (
    BIN,
    FULL,
    Mngr,
    Ran,
    clean_up,
    end_servers,
    git,
    new_env,
    new_repo,
    wait_for,
)

pytest_plugins = ["tests.hosts.fixtures"]

__all__ = ["BIN", "FULL", "Mngr", "Ran", "end_servers", "git", "wait_for"]

settings.register_profile(
    "mngr", max_examples=1000 if FULL else 60, derandomize=not FULL, deadline=None, database=None
)
settings.load_profile("mngr")


ROOT = os.getcwd()
SEED = os.environ.get("MNGR_TEST_SEED", "0")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--agents", default="claude codex opencode", help="the coding agents to run for real")
    parser.addoption(
        "--modal",
        default="ours",
        choices=("ours", "real"),
        help="which control plane; the real one costs money",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "full: long, and much of it is checked elsewhere; in make test-all only"
    )
    config.addinivalue_line(
        "markers", "sampled(n): one of n is run, chosen by MNGR_TEST_SEED; in make test-all, all are"
    )


def pytest_report_header() -> str:
    return f"scale: {'full' if FULL else f'a sample, MNGR_TEST_SEED={SEED}'}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Who names a test by -k wants it."""
    if not FULL and not config.option.keyword:
        out = [item for item in items if item.get_closest_marker("full") or not is_drawn(item)]
        items[:] = [item for item in items if item not in out]
        config.hook.pytest_deselected(items=out)


def is_drawn(item: pytest.Item) -> bool:
    """Whether a test is one of those that the seed has chosen."""
    marker = item.get_closest_marker("sampled")
    if marker is None:
        return True
    digest = hashlib.sha256(f"{SEED} {item.nodeid}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % int(marker.args[0]) == 0


@pytest.fixture(autouse=True)
def _stay() -> Iterator[None]:
    """The next test starts where this one did."""
    yield
    assert os.getcwd() == ROOT


@pytest.fixture(scope="session")
def example_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the example plugin in it, as pip leaves it; nothing is fetched."""
    place = tmp_path_factory.mktemp("site")
    source = Path(__file__).parents[1] / "examples" / "mngr-example"
    flags = ["-q", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([BIN / "python", "-m", "pip", "install", *flags, "--target", place, source], check=True)
    return place


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment that knows nothing of the person who runs the tests."""
    return new_env(tmp_path)


@pytest.fixture
def repo(tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository with one commit."""
    return new_repo(tmp_path, env, monkeypatch)


@pytest.fixture
def mngr(tmp_path: Path, repo: Path, env: dict[str, str]) -> Iterator[Mngr]:
    """The program, and afterwards no trace of what it started."""
    yield Mngr(repo, Path(env["MNGR_HOME"]), env)
    clean_up(tmp_path)
