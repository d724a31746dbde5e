"""`mngr tutorial blocks` from outside."""

from __future__ import annotations

import hashlib

import pytest

from tests.conftest import MngrProgram

SCRIPT = "#!/bin/sh\n\n### Talk\n\n# say\necho hi \\\n  there\n\n# to fill\n"
SAY = hashlib.sha256(b"# say\necho hi \\\nthere").hexdigest()[:12]


def test_the_blocks_of_this_projects_tutorial(mngr: MngrProgram) -> None:
    (mngr.repo / "tutorial.sh").write_text(SCRIPT)
    shown = mngr("tutorial", "blocks").out.splitlines()
    assert [line.split() for line in shown[:3]] == [
        ["LINE", "ID", "COMMANDS", "SECTION", "BLOCK"],
        ["1", "3af71adb278a", "0", "bin-sh"],
        ["5", SAY, "1", "Talk", "say"],
    ]
    assert shown[3:] == ["tutorial.sh:9: to fill: to fill"]
    assert not mngr.home.exists()


def test_as_json_and_by_a_template(mngr: MngrProgram) -> None:
    (mngr.repo / "tour.sh").write_text(SCRIPT)
    told = mngr.run_json("tutorial", "blocks", "tour.sh")
    assert told == {
        "v": 1,
        "blocks": [
            {
                "id": "3af71adb278a",
                "slug": "bin-sh",
                "line": 1,
                "section": None,
                "text": "#!/bin/sh",
                "commands": [],
            },
            {
                "id": SAY,
                "slug": "say",
                "line": 5,
                "section": "Talk",
                "text": "# say\necho hi \\\n  there",
                "commands": ["echo hi there"],
            },
        ],
        "blanks": [{"line": 9, "section": "Talk", "title": "to fill", "text": "# to fill"}],
        "problems": [],
    }
    assert mngr("tutorial", "blocks", "tour.sh", "--format", "{line} {slug}").out == "1 bin-sh\n5 say\n"


def test_the_settings_say_where_it_is_from_every_directory(mngr: MngrProgram) -> None:
    below = mngr.repo / "docs"
    below.mkdir()
    (below / "tour.sh").write_text("ls\n")
    mngr("config", "set", "tutorial.file", "docs/tour.sh")
    assert mngr("tutorial", "blocks", "--format", "{slug}", cwd=below).out == "ls\n"
    assert mngr("tutorial", "blocks", "tour.sh", "--format", "{slug}", cwd=below).out == "ls\n"


def test_what_is_never_closed_is_named_and_the_rest_is_shown(mngr: MngrProgram) -> None:
    (mngr.repo / "tutorial.sh").write_text("one\n\ncat <<EOF\n\ntwo\n")
    done = mngr("--format", "json", "tutorial", "blocks", code=1)
    assert [block["slug"] for block in done.parse_json()["blocks"]] == ["one", "cat-eof", "two"]
    assert done.parse_json()["problems"] == [
        {"path": "tutorial.sh", "line": 3, "message": "the here-document 'EOF' has no end"}
    ]
    assert "tutorial.sh:3: the here-document 'EOF' has no end" in done.err
    (mngr.repo / "tutorial.sh").write_text(
        "# one\r\nls\r\n\r\n## A title (or so)\r\n\r\nSome text (and more).\r\n\r\nls\r\n"
    )
    done = mngr("tutorial", "blocks", "--format", "{slug}", code=1)
    assert done.out == "one\nsome-text-and-more\nls\n"
    assert "tutorial.sh:6: this is no shell: syntax error near unexpected token `('" in done.err


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x7fELF\0", "t:1: this is no text, so it is no shell script"),
        (b"import os\nos.getcwd()\n", "t:1: this is Python, not a shell script"),
        (b'{"a": [1]}\n', "t:1: this is JSON, not a shell script"),
        (b"#!/usr/bin/env node\n1\n", "t:1: this is a script for /usr/bin/env node, not a shell script"),
        (None, "there is no script t"),
    ],
)
def test_what_is_no_script_is_refused(mngr: MngrProgram, data: bytes | None, said: str) -> None:
    if data is not None:
        (mngr.repo / "t").write_bytes(data)
    done = mngr("tutorial", "blocks", "t", code=1)
    assert done.err.startswith(f"Error: {said}\nHint: ")
    assert done.out == ""


def test_nothing_in_a_script_reaches_the_terminal_raw(mngr: MngrProgram) -> None:
    (mngr.repo / "tutorial.sh").write_text("### a\x1b[31mb\n\nls\n\n# c\x1b]0;d\x07\n")
    out = mngr("tutorial", "blocks").out
    assert "a?[31mb" in out and "c?]0;d?\n" in out and "\x1b" not in out
