"""Tests of `mngr tutorial blocks`."""

from __future__ import annotations

import hashlib

import pytest

from tests.conftest import MngrProgram

SCRIPT = "#!/bin/sh\n\n### Talk\n\n# say\necho hi \\\n  there\n\n# to fill\n"
SAY = hashlib.sha256(b"# say\necho hi \\\nthere").hexdigest()[:12]


def test_blocks_lists_the_blocks_of_the_projects_tutorial(mngr: MngrProgram) -> None:
    (mngr.repo / "tutorial.sh").write_text(SCRIPT)
    lines = mngr("tutorial", "blocks").out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["LINE", "ID", "COMMANDS", "SECTION", "BLOCK"],
        ["1", "3af71adb278a", "0", "bin-sh"],
        ["5", SAY, "1", "Talk", "say"],
    ]
    assert lines[3:] == ["tutorial.sh:9: empty heading: to fill"]
    assert not mngr.home.exists()


def test_blocks_prints_json_or_follows_a_template(mngr: MngrProgram) -> None:
    (mngr.repo / "tour.sh").write_text(SCRIPT)
    output = mngr.run_json("tutorial", "blocks", "tour.sh")
    assert output == {
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


def test_the_settings_name_the_script_for_every_directory(mngr: MngrProgram) -> None:
    docs = mngr.repo / "docs"
    docs.mkdir()
    (docs / "tour.sh").write_text("ls\n")
    mngr("config", "set", "tutorial.file", "docs/tour.sh")
    assert mngr("tutorial", "blocks", "--format", "{slug}", cwd=docs).out == "ls\n"
    assert mngr("tutorial", "blocks", "tour.sh", "--format", "{slug}", cwd=docs).out == "ls\n"


def test_a_syntax_error_is_named_and_the_other_blocks_are_shown(mngr: MngrProgram) -> None:
    (mngr.repo / "tutorial.sh").write_text("one\n\ncat <<EOF\n\ntwo\n")
    result = mngr("--format", "json", "tutorial", "blocks", code=1)
    assert [block["slug"] for block in result.parse_json()["blocks"]] == ["one", "cat-eof", "two"]
    assert result.parse_json()["problems"] == [
        {"path": "tutorial.sh", "line": 3, "message": "the here-document 'EOF' has no end"}
    ]
    assert "tutorial.sh:3: the here-document 'EOF' has no end" in result.err
    (mngr.repo / "tutorial.sh").write_text(
        "# one\r\nls\r\n\r\n## A title (or so)\r\n\r\nSome text (and more).\r\n\r\nls\r\n"
    )
    result = mngr("tutorial", "blocks", "--format", "{slug}", code=1)
    assert result.out == "one\nsome-text-and-more\nls\n"
    assert "tutorial.sh:6: this is not valid shell: syntax error near unexpected token `('" in result.err


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x7fELF\0", "t:1: this is not text, so it is not a shell script"),
        (b"import os\nos.getcwd()\n", "t:1: this is Python, not a shell script"),
        (b'{"a": [1]}\n', "t:1: this is JSON, not a shell script"),
        (b"#!/usr/bin/env node\n1\n", "t:1: this is a script for /usr/bin/env node, not a shell script"),
        (None, "there is no tutorial script t"),
    ],
)
def test_a_file_that_is_no_shell_script_is_rejected(mngr: MngrProgram, data: bytes | None, said: str) -> None:
    if data is not None:
        (mngr.repo / "t").write_bytes(data)
    result = mngr("tutorial", "blocks", "t", code=1)
    assert result.err.startswith(f"Error: {said}\nHint: ")
    assert result.out == ""


def test_control_characters_of_a_script_do_not_reach_the_terminal(mngr: MngrProgram) -> None:
    (mngr.repo / "tutorial.sh").write_text("### a\x1b[31mb\n\nls\n\n# c\x1b]0;d\x07\n")
    out = mngr("tutorial", "blocks").out
    assert "a?[31mb" in out and "c?]0;d?\n" in out and "\x1b" not in out
