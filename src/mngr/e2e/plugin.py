"""The pytest plugin: provides the fixture `e2e` and manages the artifacts of its tests."""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.e2e.session import E2eSession, TestDescription

ARTIFACTS_DIR = os.path.join(".mngr", "e2e")
KEPT_RUNS = 20  # the number of runs whose artifacts are kept
_RUN_NAME = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
_run_dir_key = pytest.StashKey[Path]()
_is_begun_key = pytest.StashKey[bool]()
_session_key = pytest.StashKey["E2eSession"]()
_failure_key = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("e2e", "tests of command-line programs (mngr.e2e)")
    group.addoption("--e2e-dir", metavar="DIR", help="write artifacts to DIR (default: .mngr/e2e in the project)")
    group.addoption(
        "--e2e-update",
        action="store_true",
        help="write a patch with updated expectations instead of failing",
    )
    group.addoption(
        "--e2e-shell-on-fail",
        action="store_true",
        help="open a shell in the directory of a failed test before it is deleted",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--e2e-shell-on-fail") and config.getoption("numprocesses", None):
        raise pytest.UsageError(
            "--e2e-shell-on-fail needs the terminal, so pytest must not run tests in parallel: add -n 0"
        )
    config.addinivalue_line("markers", "observed: generated from the output of a program, and not reviewed yet")


def get_run_dir(config: pytest.Config) -> Path:
    """Return the directory of this run's artifacts. All xdist workers share it."""
    if _run_dir_key not in config.stash:
        inherited = getattr(config, "workerinput", {}).get("mngr_e2e_run")
        config.stash[_run_dir_key] = Path(inherited) if inherited else _choose_run_dir(_get_artifacts_dir(config))
    return config.stash[_run_dir_key]


def _get_artifacts_dir(config: pytest.Config) -> Path:
    option = config.getoption("--e2e-dir")
    return Path(option).absolute() if option else config.rootpath / ARTIFACTS_DIR


def _choose_run_dir(artifacts_dir: Path) -> Path:
    return artifacts_dir / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"


def _begin_run(run_dir: Path, config: pytest.Config) -> None:
    """Create the directory of the run once, and remove session directories that a killed run left behind."""
    if config.stash.get(_is_begun_key, False):
        return
    config.stash[_is_begun_key] = True
    from mngr.e2e import session_dirs

    session_dirs.remove_abandoned_dirs()
    run_dir.mkdir(parents=True, exist_ok=True)
    gitignore = run_dir.parent / ".gitignore"
    if not gitignore.exists():
        gitignore.write_text("*\n")
    if config.getoption("--e2e-update"):
        from mngr.e2e.expectations import expectation_updates

        expectation_updates.start_updates(run_dir)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Delete all but the latest runs. Only the main process does this, not an xdist worker."""
    run_dir = session.config.stash.get(_run_dir_key, None)
    if run_dir is None or not run_dir.is_dir() or hasattr(session.config, "workerinput"):
        return
    import shutil

    for old_run in sorted(path for path in run_dir.parent.iterdir() if _RUN_NAME.fullmatch(path.name))[:-KEPT_RUNS]:
        shutil.rmtree(old_run, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give each xdist worker the directory of this run."""
    node.workerinput["mngr_e2e_run"] = str(get_run_dir(node.config))


@pytest.fixture
def e2e(request: pytest.FixtureRequest) -> Iterator[E2eSession]:
    """An isolated terminal session; see mngr.e2e."""
    from mngr.e2e.parse_docstring_citations import list_cited_blocks
    from mngr.e2e.session import E2eSession

    run_dir = get_run_dir(request.config)
    _begin_run(run_dir, request.config)
    session = E2eSession(run_dir / build_test_dir_name(request.node.nodeid), _describe_test(request))
    for block in list_cited_blocks(session.doc):
        session.write_tutorial_block(block)
    request.node.stash[_session_key] = session
    yield session
    failure = request.node.stash.get(_failure_key, None)
    if failure is not None and request.config.getoption("--e2e-shell-on-fail"):
        _open_shell(session, request.config)
    session.close()
    if failure is None:
        session.save_status("passed")
    else:
        session.save_status("failed", failure=session.transcript.redact(failure))


_DIRECTORY_PART = re.compile(r"^[^\[:]*/")  # the directories of the file, but no slash in a parameter id


def build_test_dir_name(nodeid: str) -> str:
    """Return a short, unique directory name for a test."""
    safe_name = re.sub(r"[^A-Za-z0-9_.-]+", "-", _DIRECTORY_PART.sub("", nodeid)).strip("-.")
    checksum = f"{zlib.crc32(nodeid.encode()):08x}"
    return f"{safe_name[:80]}-{checksum}"


def _describe_test(request: pytest.FixtureRequest) -> TestDescription:
    import inspect

    from mngr.e2e.session import TestDescription

    path, line, _ = request.node.location
    return TestDescription(
        test=request.node.nodeid,
        file=path,
        line=None if line is None else line + 1,
        doc=inspect.getdoc(request.function) or "",
        observed=request.node.get_closest_marker("observed") is not None,
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    session = item.stash.get(_session_key, None)
    if session is not None and report.failed:
        item.stash[_failure_key] = report.longreprtext
        report.sections.append(("e2e", f"transcript: {session.transcript.path}"))
    if session is not None and call.when == "teardown" and report.failed:
        session.save_status("failed", failure=session.transcript.redact(report.longreprtext))
    return report


def _open_shell(session: E2eSession, config: pytest.Config) -> None:
    """Open a shell for the user in the directory of the failed test, with its variables."""
    import subprocess

    capture = config.pluginmanager.getplugin("capturemanager")
    if not _has_terminal():
        return
    env = {**session.env, "TERM": os.environ.get("TERM", "dumb"), "PS1": "(e2e) $ "}
    with Path("/dev/tty").open("r+b", buffering=0) as terminal, capture.global_and_fixture_disabled():
        terminal.write(
            f"\r\nThe test failed. This shell runs in its directory, {session.cwd}. Enter `exit` to continue.\r\n".encode()
        )
        subprocess.run(
            ["sh", "-i"],
            cwd=session.cwd,
            env=env,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            check=False,
        )


def _has_terminal() -> bool:
    """True when a user can be asked at a terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if _run_dir_key not in config.stash or not config.stash[_run_dir_key].is_dir():
        return
    run_dir = config.stash[_run_dir_key]
    if config.getoption("--e2e-update") and not hasattr(config, "workerinput"):
        from mngr.e2e.expectations import expectation_updates

        text, by_hand = expectation_updates.build_patch(run_dir, config.rootpath)
        if text:
            (run_dir / "update.patch").write_text(text, encoding="utf-8")
            patch_path = os.path.relpath(run_dir / "update.patch", config.rootpath)
            terminalreporter.write_line(f"e2e: apply the updated expectations: git apply {patch_path}")
        for location in by_hand:
            terminalreporter.write_line(f"e2e: update this expectation by hand: {location}")
    if any(stats for name, stats in terminalreporter.stats.items() if name in ("failed", "error")):
        terminalreporter.write_line(f"e2e: transcripts and recordings: {os.path.relpath(run_dir, config.rootpath)}")
