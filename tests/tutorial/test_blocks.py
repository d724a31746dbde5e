"""Splitting shell scripts into blocks keeps commands whole and loses no line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.base.errors import MngrError, NotFound
from mngr.tutorial.blocks import Block, EmptyHeading, compute_block_id, parse_script, read_script, split_lines


def list_block_texts(script: str) -> list[str]:
    return [block.text for block in parse_script(script).blocks]


def get_only_block(script: str) -> Block:
    (block,) = parse_script(script).blocks
    return block


@pytest.mark.parametrize(
    "script",
    [
        "cat <<EOF\none\n\ntwo\nEOF\nls",
        "cat <<-EOF\n\tone\n\n\ttwo\n\tEOF\nls",
        "cat <<'E O F' | sort\n$(\n\n'\nE O F",
        'cat <<"A" - <<\\B\n\nB\n\nA\n\'\n\nB',
        "cat << EOF >x; echo '\n\nEOF\n'\nbody\n\nEOF",
        "echo 'one\n\ntwo'",
        'echo "one\n\n\\" two"',
        "echo $'it\\'s\n\none'",
        "x=$(\n  one\n\n  two\n)",
        'echo "$(\n  echo ")"\n\n)"',
        "echo `one\n\ntwo`",
        "echo ${x:-\n\ny}",
        "x=$((1 +\n\n2))",
        "one \\\n\ntwo",
        "one |\n\ntwo",
        "one && # because\n\n# and\ntwo",
        "x=$(case $y in\na) one ;;\n\n(b) two ;;\nesac)\nls",
    ],
)
def test_an_empty_line_inside_a_quote_or_here_document_does_not_end_a_block(script: str) -> None:
    assert list_block_texts(script + "\n\nnext\n") == [script, "next"]
    assert parse_script(script).problems == []


@pytest.mark.parametrize(
    "script",
    [
        "if true; then\n  one\n\n  two\nfi",
        "f() {\n  one\n\n  two\n}",
        "for x in 1 2; do\n\none\ndone",
        "(\none\n\ntwo\n)",
        "# it's\n\ntwo",
        "echo one # it's \\\n\ntwo",
        "echo $((1 << 2))\n\ntwo",
        "((x = 1 << 2))\n\ntwo",
        "cat <<< EOF\n\ntwo",
        "echo a#'b' \\'\n\ntwo",
        "echo ${#x} $# ${x#\\'}\n\ntwo",
        "echo '\\'\n\ntwo",
        'echo "${x:-it\'s}"\n\ntwo',
        "echo `# it's`\n\ntwo",
    ],
)
def test_an_empty_line_elsewhere_ends_a_block(script: str) -> None:
    assert list_block_texts(script)[-1] == script.split("\n\n")[1]
    assert parse_script(script).problems == []


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("# say\n  echo hi  # loudly\nls", ["echo hi", "ls"]),
        ("one \\\n    --two \\\n    three", ["one --two three"]),
        ("on\\\ne", ["one"]),
        ('echo "a\\\n  b"', ['echo "a  b"']),
        ("echo 'a\n  b'", ["echo 'a\n  b'"]),
        ("cat <<E\n\n  x\nE\nls", ["cat <<E\n\n  x\nE", "ls"]),
        ("one |\n  two\nthree", ["one |\n  two", "three"]),
        ("for x in a; do\n  # why\n  one\ndone\ntwo", ["for x in a; do\n  one\ndone", "two"]),
        ("if a; then\nb\nelif c; then\nd\nelse if e; then\nf\nfi\nfi\ng", ["if a; then\nb\nelif c; then\nd\nelse if e; then\nf\nfi\nfi", "g"]),
        ("case $x in\na) one ;;\n(b|c)\n  two\nesac\nls", ["case $x in\na) one ;;\n(b|c)\n  two\nesac", "ls"]),
        ("f() {\n  one\n}\nfunction g {\n  two\n}\nh ()\n(\nx\n)\nf", ["f() {\n  one\n}", "function g {\n  two\n}", "h ()", "(\nx\n)", "f"]),
        ("echo if for {\nls", ["echo if for {", "ls"]),
        ("while read -r x; do echo $x; done <<E\nfi\nE\nls", ["while read -r x; do echo $x; done <<E\nfi\nE", "ls"]),
        ("diff <(one) \\\n <(two)\nls", ["diff <(one) <(two)", "ls"]),
        ("if a; then\n\nb", ["b"]),
        ("#!/bin/sh\necho", ["echo"]),
        ("set -e\necho", ["set -e", "echo"]),
    ],
)  # fmt: skip
def test_a_command_of_several_lines_stays_whole(script: str, commands: list[str]) -> None:
    assert parse_script(script).blocks[-1].commands == commands


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh",
        "#!/usr/bin/env bash\n# by ann",
        "set -e",
        "set -euo pipefail # strict\nshopt -s nullglob",
        "set -e; set -u",
        "\ufeff#!/bin/sh\r\nset -eu\r\n",
    ],
)
def test_a_block_that_only_sets_shell_options_has_no_commands(script: str) -> None:
    assert get_only_block(script).commands == []


def test_a_block_has_a_slug_a_line_and_a_section() -> None:
    blocks = parse_script(
        "#!/bin/sh\n\n# Part one\n\n#   See what's there!\nls -l\n\n\n\tgit status \\\n  --short"
    ).blocks
    assert [(b.slug, b.line, b.section) for b in blocks] == [
        ("bin-sh", 1, None),
        ("see-whats-there", 5, "Part one"),
        ("git-status", 9, "Part one"),
    ]
    assert get_only_block("# " + "word " * 30 + "\nls").slug == "word-word-word-word-word-word-word-word-word"
    assert get_only_block("«»").slug == "block"


@pytest.mark.parametrize(
    "banner",
    [
        "#####\n# Part 1\n#####",
        "#\n# Part 1\n#",
        "# ====\n# Part 1\n# ====",
        "# --- Part 1 ---",
        "# === Part 1 ===",
        "#=== Part 1",
        "# ── Part 1 ───────",
        "# *** Part 1 ***",
        "## Part 1",
        "## Part 1 ##",
        "### Part 1",
        "#### Part 1 ####",
        "# Part 1\n# ------",
    ],
)
def test_a_banner_begins_a_section(banner: str) -> None:
    script = parse_script(f"first\n\n{banner}\n\n# Some words on it.\n\n# do\nsecond\n")
    sections = [block.section for block in script.blocks]
    assert sections == ([None, "Part 1"] if banner[1] != "\n" else [None, "Some words on it."])
    assert [blank.title for blank in script.empty_headings] == ([] if banner[1] != "\n" else ["Part 1"])


def test_a_banner_may_be_part_of_its_first_block() -> None:
    blocks = parse_script("# --- One ---\nls\n\n## two\nls -l\n\n# ### no\nls -a\n").blocks
    assert [block.section for block in blocks] == ["One", "One", "One"]


def test_a_heading_without_a_block_is_an_empty_heading() -> None:
    script = parse_script(
        "#!/bin/sh\n\n### List\n\n# by label\n\n# by state\nlist\n\n# by host\n\n### Stop\n\n### Start\n\n# what\n#   it does\n"
    )
    assert [(b.line, b.section, b.title) for b in script.empty_headings] == [
        (5, "List", "by label"),
        (10, "List", "by host"),
        (12, "Stop", "Stop"),
        (16, "Start", "what"),
    ]
    assert script.empty_headings[-1].text == "# what\n#   it does"


@pytest.mark.parametrize(
    ("script", "line", "said"),
    [
        ("one\n\ncat <<EOF\nx\n\ntwo\n", 3, "the here-document 'EOF' has no end"),
        ("one\n\necho it's\n\ntwo\n", 3, "the ' is never closed"),
        ("one\n\necho it's\n\ntwo 'a'\n", 3, "the ' is never closed"),
        ('one\n\nls\necho "\n\ntwo\n', 4, 'the " is never closed'),
        ("one\n\nx=$(ls\n\ntwo\n", 3, "the $( is never closed"),
    ],
)
def test_an_unclosed_quote_is_reported_and_later_blocks_are_read(script: str, line: int, said: str) -> None:
    parsed = parse_script(script, "t.sh")
    assert [str(problem) for problem in parsed.problems] == [f"t.sh:{line}: {said}"]
    assert len(parsed.blocks) == 3
    assert (parsed.blocks[0].text, parsed.blocks[2].text.split()[0]) == ("one", "two")


def test_thousands_of_unclosed_quotes_are_read_quickly() -> None:
    script = parse_script("it's\n\ncat <<X$\n\n" * 2000)
    assert len(script.problems) == 20
    assert len(script.blocks) >= 3000


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"echo\n\x7fELF\0\0", "t.sh:2: this is not text"),
        ("echo hi\n".encode("utf-16"), "t.sh:1: this is not text"),
        (b"#!/usr/bin/env python3\nprint()\n", "t.sh:1: this is a script for /usr/bin/env python3"),
        (b"import os\n\nprint(os.getcwd())\n", "t.sh:1: this is Python"),
    ],
)
def test_a_file_that_is_not_a_shell_script_is_rejected(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "t.sh"
    path.write_bytes(data)
    with pytest.raises(MngrError, match=r"not a shell script|no shell script") as caught:
        read_script(str(path), "t.sh")
    assert caught.value.message.startswith(said)


def test_an_unusual_script_is_read_and_a_missing_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.sh"
    path.write_bytes(b"import -window root x.png\n\necho \xff")
    script = read_script(str(path), "t.sh")
    assert [block.text for block in script.blocks] == ["import -window root x.png", "echo \ufffd"]
    assert [str(problem) for problem in script.problems] == ["t.sh:3: this is not UTF-8"]
    with pytest.raises(NotFound, match=r"no tutorial script .*/gone\.sh"):
        read_script(str(tmp_path / "gone.sh"))
    with pytest.raises(MngrError, match="Is a directory"):
        read_script(str(tmp_path))


PIECES = st.sampled_from(
    ["echo hi", "# why", "'", '"', "$(", ")", "`", "${", "}", "<<E", "<<-'E'", "E", "\\", "|", "&&", "if", "then", "fi", "((", "))",
     "case x in", "esac", "{", "#", ";;", "$'", "<<<", " ", "\t", "\n", "\n\n", "\r\n", "é", "##", "# --- x ---", "set -e", "do", "done"]
)  # fmt: skip
SCRIPTS = st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=200)


@given(SCRIPTS)
def test_no_line_is_lost(text: str) -> None:
    script = parse_script(text)
    parts: list[Block | EmptyHeading] = [*script.blocks, *script.empty_headings]
    lines = split_lines(text)
    covered: set[int] = set()
    for part in parts:
        size = part.text.count("\n") + 1
        assert lines[part.line - 1 : part.line - 1 + size] == part.text.split("\n")
        covered |= set(range(part.line, part.line + size))
    # The other lines are headings with a block under them, so all are comments.
    uncovered = [line for number, line in enumerate(lines, 1) if line.strip() and number not in covered]
    assert all(line.lstrip().startswith("#") for line in uncovered)


@given(SCRIPTS, st.text(" \t", max_size=3))
def test_a_block_id_does_not_depend_on_indentation_and_line_ends(text: str, indent: str) -> None:
    for block in parse_script(text.replace("\r", "")).blocks:
        lines = block.text.split("\n")
        assert compute_block_id("\r\n".join(indent + line + indent for line in ["", *lines, ""])) == block.id
        assert compute_block_id(block.text + "x") != block.id


@given(st.lists(st.sampled_from(["ls -l", "# why\nls", "cat <<E\n\n'\nE", "echo 'a\n\nb'", "x=$(\n\nls)"]), min_size=1))
def test_joined_blocks_are_split_again(blocks: list[str]) -> None:
    assert list_block_texts("\n\n".join(blocks)) == blocks
    assert list_block_texts("\r\n \t\r\n".join(block.replace("\n", "\r\n") for block in blocks)) == blocks
