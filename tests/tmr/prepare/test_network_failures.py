"""A suite that needs the network or a database gets a plain note and a command that gives it the network."""

from __future__ import annotations

import shlex
import socket
import sys
from collections.abc import Iterator

import pytest

from mngr.tmr.prepare.network_failures import find_network_error_line, find_network_failures
from mngr.tmr.runners.test_run import Failure, TestRun
from tests.conftest import MngrProgram, run_git

RESOLVING = "import socket\n\n\ndef test_name():\n    socket.getaddrinfo('db.example.com', 443)\n"
CONNECTING = "import socket\n\n\ndef test_database():\n    socket.create_connection(('127.0.0.1', {port}), 5).close()\n"
PASSING = "def test_nothing():\n    pass\n"


@pytest.fixture
def database_port() -> Iterator[int]:
    """The port of a server on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def commit(mngr: MngrProgram, **texts: str) -> None:
    """Commit test files."""
    mngr.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    for name, text in texts.items():
        (mngr.repo / f"test_{name}.py").write_text(text)
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-qm", "tests")


def read_note(mngr: MngrProgram, *words: str) -> str:
    """Return the note of a dry run about the network."""
    output = mngr("tmr", "run", "--dry-run", "--runs", "1", *words).out
    return next((line for line in output.splitlines() if "network" in line), "")


def test_the_command_in_the_note_gives_the_tests_their_database(mngr: MngrProgram, database_port: int) -> None:
    commit(mngr, database=CONNECTING.format(port=database_port), nothing=PASSING)
    note = read_note(mngr, "--", "-k", "database or nothing")
    assert "1 test fails at a network connection, for example test_database.py::test_database: " in note
    assert "ConnectionRefusedError: [Errno 111] Connection refused. The clean room has no network access." in note
    command = note.partition("If the tests need the network or a database, run: ")[2]
    assert command == "mngr tmr run --dry-run --runs 1 --isolation network -- -k 'database or nothing'"
    assert "baseline: 2 pass" in mngr(*shlex.split(command)[1:]).err


@pytest.mark.agents
def test_a_failed_name_resolution_gets_the_note(mngr: MngrProgram) -> None:
    commit(mngr, name=RESOLVING)
    note = read_note(mngr)
    assert "1 test fails at a network connection, for example test_name.py::test_name: socket.gaierror: " in note
    estimate = mngr.run_json("tmr", "run", "--dry-run", "--runs", "1")
    assert (estimate["network_failures"]["count"], estimate["failing"]) == (1, 1)


@pytest.mark.agents
def test_other_failures_and_runs_with_network_get_no_note(mngr: MngrProgram) -> None:
    commit(mngr, other="def test_other():\n    assert 1 == 2\n", name=RESOLVING)
    assert read_note(mngr, "test_other.py") == ""
    assert read_note(mngr, "--isolation", "network") == ""


def test_a_suite_that_cannot_be_collected_without_its_database_gets_the_command(mngr: MngrProgram) -> None:
    commit(mngr, name=RESOLVING.replace("def test_name():\n   ", "if True:\n   "))
    error = mngr("tmr", "run", "--dry-run", code=1).err
    assert "pytest cannot collect any test, and a clean room has no network access" in error
    assert "allow it: mngr tmr run --dry-run --isolation network" in error


@pytest.mark.parametrize(
    "line",
    [
        "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        "psycopg2.OperationalError: connection to server at 'localhost' (::1), port 5432 failed: Connection refused",
        "pymysql.err.OperationalError: (2003, \"Can't connect to MySQL server on 'db' ([Errno 111])\")",
        "redis.exceptions.ConnectionError: Error 111 connecting to localhost:6379.",
        "pymongo.errors.ServerSelectionTimeoutError: localhost:27017",
        "urllib3.exceptions.MaxRetryError: Failed to establish a new connection: [Errno 101] Network is unreachable",
        "curl: (6) Could not resolve host: example.com",
    ],
)
def test_errors_of_common_clients_are_recognized(line: str) -> None:
    failure = Failure(id="t", when="call", exception="E", message="it failed", text=f"x = 1\nE   {line}")
    run = TestRun(test="t", outcome="fail", seconds=0.0, exit_code=1, command="pytest", failures=[failure])
    found = find_network_failures([run, None])
    assert found is not None and found.count == 1 and found.error == line.rstrip(".")
    assert find_network_error_line("AssertionError: the connection is open") == ""
