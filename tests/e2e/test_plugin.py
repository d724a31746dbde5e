"""The pytest plugin, run by its own pytest process in a small project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mngr.e2e.parse_docstring_citations import list_cited_blocks
from mngr.e2e.plugin import KEPT_RUNS, build_test_dir_name
from mngr.testkit.contract.pty_terminal import PtyTerminal

TESTS = '''
from mngr.e2e import E2eSession, expect

def test_good(e2e: E2eSession) -> None:
    """It says hello.

    Tutorial block:
        # say hello
        echo hello

    Note:
        nothing else
    """
    e2e.write_tutorial_block("""
    # and bye
    echo bye
    """)
    expect(e2e.run("echo hello", comment="say hello")).to_succeed()
    with e2e.tty("echo bye", name="bye") as terminal:
        terminal.wait_for("bye")

def test_bad(e2e: E2eSession) -> None:
    expect(e2e.run("echo $TOKEN_A", env={"TOKEN_A": "sk-proj-abcdef0123456789"})).to_fail()
'''
UPDATED = '''
from mngr.e2e import expect

def test_old(e2e):
    result = e2e.run("echo one; echo two at 12:00:00; pwd; echo '<x> ... (3)'")
    expect(result.stdout).to_match_lines("""
        <first>
        deux at [TIME]
    """)
    expect(e2e.run("echo three").stdout).to_equal("trois")
    expect(e2e.run("echo <first>").stdout).to_match_lines("<first>")
    expect(e2e.run("echo vier").stdout).to_equal("x")
    expect(e2e.run("echo fünf").stdout).to_equal("x")
'''
BY_HAND = """
import pytest
from mngr.e2e import expect

@pytest.mark.parametrize("word", ["a", "b"])
def test_two(e2e, word):
    expect(e2e.run(f"echo {word}")).to_equal("c")

def test_made(e2e):
    expect(e2e.run("echo a")).to_equal(f"{1 + 1}")
"""


def run_pytest(project: Path, *words: str, code: int) -> str:
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    completed = subprocess.run(
        argv,
        cwd=project,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert completed.returncode == code, completed.stdout + completed.stderr
    return completed.stdout + completed.stderr


def project(directory: Path, text: str) -> Path:
    """Create a project with one test file."""
    (directory / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (directory / "test_it.py").write_text(text)
    return directory


def artifacts(project_dir: Path) -> dict[str, Path]:
    """Return the artifacts directory of each test of the only run, by test name."""
    (run_dir,) = [path for path in (project_dir / ".mngr" / "e2e").iterdir() if path.is_dir()]
    return {str(meta(path)["test"]).rpartition("::")[2]: path for path in run_dir.iterdir() if path.is_dir()}


def meta(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((path / "meta.json").read_text())
    return data


@pytest.mark.parametrize("words", [(), ("-n", "2")])
def test_a_run_writes_transcripts_recordings_and_metadata(tmp_path: Path, words: tuple[str, ...]) -> None:
    output = run_pytest(project(tmp_path, TESTS), *words, code=1)
    assert "the command succeeded, but should have failed" in output
    assert "transcripts and recordings: .mngr/e2e/" in output
    directories = artifacts(tmp_path)
    assert set(directories) == {"test_good", "test_bad"}
    good, bad = meta(directories["test_good"]), meta(directories["test_bad"])
    assert (good["status"], bad["status"]) == ("passed", "failed"), good["failure"]
    assert good["test"] == "test_it.py::test_good" and (good["file"], good["line"]) == ("test_it.py", 4)
    assert good["doc"].startswith("It says hello.\n")
    assert good["blocks"] == ["# say hello\necho hello", "# and bye\necho bye"]
    assert good["recordings"] == ["bye.cast"] and good["failure"] is None
    assert "should have failed" in bad["failure"]
    assert "# say hello\n$ echo hello\n  hello\n? 0\n" in (directories["test_good"] / "transcript.txt").read_text()
    assert "0123456789" not in (directories["test_bad"] / "transcript.txt").read_text()
    assert (tmp_path / ".mngr" / "e2e" / ".gitignore").read_text() == "*\n"


def test_a_killed_pytest_leaves_its_transcript(tmp_path: Path) -> None:
    text = "def test_dies(e2e):\n    e2e.run('echo before')\n    e2e.run('kill -KILL $PPID; sleep 5')\n"
    run_pytest(project(tmp_path, text), code=-9)
    directory = artifacts(tmp_path)["test_dies"]
    assert (directory / "transcript.txt").read_text().startswith("$ echo before\n  before\n? 0\n$ kill")
    assert meta(directory)["status"] == "running"


def test_update_writes_failed_expectations_as_a_patch(tmp_path: Path) -> None:
    output = run_pytest(project(tmp_path, UPDATED), "--e2e-update", code=0)
    name = output.partition("git apply ")[2].split()[0]
    assert (tmp_path / "test_it.py").read_text() == UPDATED
    subprocess.run(["git", "apply", name], cwd=tmp_path, check=True)
    after = (tmp_path / "test_it.py").read_text()
    assert "        <first>\n        two at [TIME]\n        [CWD]\n" in after
    assert "to_equal('three')" in after and "to_equal('vier')" in after and "to_equal('fünf')" in after
    run_pytest(tmp_path, code=0)


def test_update_names_expectations_that_need_a_manual_edit(tmp_path: Path) -> None:
    output = run_pytest(project(tmp_path, BY_HAND), "--e2e-update", code=0)
    assert [line.rpartition(" ")[2] for line in output.splitlines() if "by hand" in line] == [
        "test_it.py:7",
        "test_it.py:10",
    ]
    subprocess.run(["git", "apply", output.partition("git apply ")[2].split()[0]], cwd=tmp_path, check=True)
    assert "to_equal('a')" in (tmp_path / "test_it.py").read_text()


def test_shell_on_fail_opens_a_shell_in_the_directory_of_the_failed_test(tmp_path: Path) -> None:
    text = "def test_bad(e2e):\n    e2e.run('echo evidence > file')\n    assert 0\n"
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--e2e-shell-on-fail"]
    env = {**os.environ, "TERM": "xterm"}
    with PtyTerminal(argv, project(tmp_path, text), env) as terminal:
        terminal.wait_for_text("(e2e) $")
        terminal.type("cat file\r")
        terminal.wait_for_text("evidence")
        terminal.type("exit\r")
        terminal.wait_for_text("1 failed")
    assert "add -n 0" in run_pytest(tmp_path, "--e2e-shell-on-fail", "-n", "2", code=4)


@pytest.mark.parametrize("words", [(), ("-n", "2")])
def test_only_the_latest_runs_are_kept(tmp_path: Path, words: tuple[str, ...]) -> None:
    artifacts_dir = project(tmp_path, "def test_it(e2e):\n    pass\n") / ".mngr" / "e2e"
    for number in range(KEPT_RUNS + 5):
        (artifacts_dir / f"20200101-0000{number:02}-abcd").mkdir(parents=True)
    (artifacts_dir / "mine").mkdir()
    run_pytest(tmp_path, *words, code=0)
    runs = sorted(path.name for path in artifacts_dir.iterdir() if path.is_dir())
    assert len(runs) == KEPT_RUNS + 1 and "mine" in runs and "20200101-000005-abcd" not in runs


def test_the_plugin_imports_one_small_module_until_it_is_used(tmp_path: Path) -> None:
    """A project whose tests do not use the fixture loads only the plugin module."""
    text = "import sys\n\ndef test_it():\n    assert [m for m in sys.modules if m.startswith('mngr.')] == NAMES\n"
    project(tmp_path, text.replace("NAMES", "['mngr.e2e', 'mngr.e2e.plugin']"))
    run_pytest(tmp_path, code=0)


def test_each_test_gets_a_short_unique_directory_name() -> None:
    names = [
        build_test_dir_name(node) for node in ("a/t.py::x[1/2]", "b/t.py::x[1/2]", f"t.py::{'y' * 300}", "t.py::é")
    ]
    assert names[0].startswith("t.py-x-1-2")
    assert len(set(names)) == 4 and all(len(name) < 100 and name.isascii() and "/" not in name for name in names)


def test_cited_blocks_are_read_from_docstrings() -> None:
    doc = "What.\n\nTutorial block:\n    # a\n    b\n\nTutorial block:\n    c\n\nNote:\n    d"
    assert [block.strip() for block in list_cited_blocks(doc)] == ["# a\n    b", "c"]
