"""Kind `mechanic`: given a job, it runs the blocks of a tutorial and writes tests that pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import MngrProgram, run_git

SCRIPT = [
    ("# a place\nmkdir shop\ncd shop\ngit init -q\ngit commit -q --allow-empty -m first", "first"),
    ('# what was done\ngit log --format=\'%h %s\'\necho "it\'s \\"here\\"" >&2', "log"),
    ("# a page\ncat <<'EOF'\n  one\n\n<two> ... [TIME]\nEOF", "log"),
    # Of one long word with many letters, three runs hardly ever share the first or the last one.
    ("# never the same\nLC_ALL=C tr -dc A-Za-z0-9 </dev/urandom | head -c 20; echo", "odd"),
    ("# asks\nread name\necho hi", "odd"),
    ("# fails\nfalse", "odd"),
]


def build_job_message() -> str:
    rows: list[dict[str, Any]] = [
        {
            "id": f"id{n}",
            "slug": text.split("\n")[0][2:].replace(" ", "-"),
            "line": 10 * n,
            "section": section,
            "text": text,
        }
        for n, (text, section) in enumerate(SCRIPT)
    ]
    data = {
        "v": 1,
        "job": "observe",
        "file": "tutorial.sh",
        "tests": "tests",
        "shell": "sh",
        "blocks": rows,
        "script": rows,
    }
    return f"Please.\n\n```mngr-job\n{json.dumps(data)}\n```\n"


def test_it_writes_passing_tests_and_explains_the_blocks_without_one(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr("create", "mech", "mechanic", "--no-connect")
    mngr("message", "mech", "--wait", "--timeout", "90", stdin=build_job_message())
    reply = mngr.run_json("transcript", "mech")["transcript"][-1]["text"]
    assert reply.startswith("4 of 6 blocks now have a test in tests/test_observed.py.")
    assert "- asks: no test, because it asks for input: it exits with 1" in reply
    assert "- fails: no test, because it exits with 1" in reply
    work = Path(mngr.get_agent("mech")["work_dir"])
    assert (
        run_git(work, "log", "-1", "--format=%s").strip() == "[ADD_TEST] Test 4 blocks of tutorial.sh by their output"
    )
    text = (work / "tests" / "test_observed.py").read_text()
    assert text.count("@pytest.mark.observed") == 4
    assert "[HASH] first" in text
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=work, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    assert "4 passed" in result.stdout
    report = mngr(
        "tutorial", "check", str(write_script(tmp_path)), str(work / "tests"), "--format", "json", code=1
    ).parse_json()
    assert report["counts"]["cited"] == 4 and report["counts"]["observed"] == 4


def write_script(directory: Path) -> Path:
    path = directory / "tutorial.sh"
    path.write_text("#!/bin/sh\n\n" + "\n\n".join(text for text, _ in SCRIPT) + "\n")
    return path


def test_it_refuses_a_message_without_a_job_and_arguments(mngr: MngrProgram) -> None:
    mngr("create", "mech", "mechanic", "--no-connect", "-m", "hello")
    mngr("wait", "mech")
    assert "contains no job" in mngr.run_json("transcript", "mech")["transcript"][-1]["text"]
    assert "takes no arguments" in mngr("create", "other", "mechanic", "--", "--fast", code=2).err
