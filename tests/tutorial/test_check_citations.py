"""Compares a tutorial with its tests, and rewrites stale citations."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.tutorial.blocks import compute_block_id, normalize_text, parse_script
from mngr.tutorial.check_citations import TutorialFinding, TutorialReport, compare_with_tests
from mngr.tutorial.citations import parse_tests, read_tests
from mngr.tutorial.fix_citations import FixedCitation, fix_citations

SCRIPT = """\
#!/bin/sh
set -e

# see what runs
mngr list --all

# end its process and keep everything
mngr stop foo

# put it away
mngr destroy foo
"""


def compare(script: str, tests: str) -> TutorialReport:
    return compare_with_tests(parse_script(script, "t.sh"), parse_tests(tests.encode(), "test_t.py"))


def write_test(name: str, *blocks: str) -> str:
    calls = [f"    e2e.write_tutorial_block({block!r})\n" for block in blocks]
    return f"def test_{name}(e2e):\n" + "".join(calls)


ALL = (
    write_test("a", "# see what runs\nmngr list --all")
    + write_test("b", "# end its process and keep everything\n    mngr stop foo")
    + write_test("c", "# put it away\r\nmngr destroy foo\n")
)


def list_kinds(result: TutorialReport) -> list[tuple[str, int]]:
    return [(finding.kind, finding.line) for finding in result.findings]


def test_a_report_is_complete_when_every_block_is_cited_and_every_citation_matches() -> None:
    result = compare(SCRIPT, ALL)
    assert (result.is_complete, result.findings) == (True, [])
    assert result.counts == {
        "blocks": 3, "cited": 3, "observed": 0, "citations": 3, "gap": 0, "stale": 0, "orphan": 0, "duplicate": 0,
        "unreadable": 0, "blanks": 0,
    }  # fmt: skip
    assert [block.tests for block in result.blocks] == [
        ["test_t.py::test_a"],
        ["test_t.py::test_b"],
        ["test_t.py::test_c"],
    ]


def test_a_block_that_no_test_cites_is_a_gap() -> None:
    result = compare(SCRIPT + "\n# more\nls\n", ALL)
    assert (list_kinds(result), result.is_complete) == ([("gap", 13)], False)


def test_a_citation_of_a_block_that_changed_is_stale() -> None:
    changed = SCRIPT.replace("mngr stop foo", "mngr stop foo --force")
    result = compare(changed, ALL)
    assert (list_kinds(result), result.is_complete) == ([("gap", 7), ("stale", 4)], False)
    finding = result.findings[1]
    assert finding.block == result.findings[0].block
    assert finding.test == "test_t.py::test_b"
    assert finding.diff == (
        "--- test_t.py:4\n+++ t.sh:7\n@@ -1,2 +1,2 @@\n # end its process and keep everything\n"
        "-mngr stop foo\n+mngr stop foo --force\n"
    )


@pytest.mark.parametrize(
    "cited",
    [
        "# completely other words\nmngr destroy foo",
        "# put it away\ngit commit --allow-empty -m 'something else'",
        "# put that away\nmngr destroy foo bar",
    ],
)
def test_a_citation_with_another_comment_or_command_is_stale(cited: str) -> None:
    result = compare(SCRIPT, write_test("x", cited))
    assert [(citation.block.slug, citation.finding.fix) for citation in result.stale] == [("put-it-away", "")]


@pytest.mark.parametrize("cited", ["# who knows\nfrobnicate the bar", "# wait for it\nmngr wait foo", "# put it"])
def test_a_citation_without_a_similar_block_is_an_orphan(cited: str) -> None:
    result = compare(SCRIPT, ALL + write_test("x", cited))
    assert (list_kinds(result), result.is_complete) == ([("orphan", 8)], False)


def test_duplicates_are_reported_as_warnings() -> None:
    duplicates = write_test("d", "# put it away\nmngr destroy foo", "# put it away\n  mngr destroy foo")
    result = compare(SCRIPT + "\n# put it away\nmngr destroy foo\n\nset -e\n\nset -e\n", ALL + duplicates)
    assert (list_kinds(result), result.is_complete) == ([("duplicate", 13), ("duplicate", 9)], True)
    assert compare(SCRIPT + "\n# more\nls\n\n# more\nls\n", ALL).counts["gap"] == 1


def test_an_unreadable_citation_or_script_makes_the_report_incomplete() -> None:
    assert not compare(SCRIPT, ALL + "def test_x(e2e): e2e.write_tutorial_block(x)\n").is_complete
    assert not compare(SCRIPT.replace("mngr destroy foo", "mngr destroy 'foo"), ALL).is_complete


def test_observed_tests_are_counted_separately() -> None:
    marked = ALL.replace("def test_a", "@pytest.mark.observed\ndef test_a").replace(
        "def test_c", "@pytest.mark.observed\ndef test_c"
    )
    result = compare(SCRIPT, marked + write_test("d", "# put it away\nmngr destroy foo"))
    assert result.is_complete
    assert [block.observed for block in result.blocks] == [True, False, False]
    assert result.counts["observed"] == 1


# Rewriting


def fix_file(tmp_path: Path, script: str, tests: str) -> tuple[str, list[FixedCitation], list[TutorialFinding]]:
    """Write the tests, fix them, and return the new text, the fixes and the remaining findings."""
    path = tmp_path / "test_t.py"
    path.write_bytes(tests.encode())
    path.chmod(0o755)

    def check() -> TutorialReport:
        return compare_with_tests(parse_script(script, "t.sh"), read_tests(str(path), lambda _: "test_t.py"))

    fixed = fix_citations(check().stale, lambda _: str(path))
    assert path.stat().st_mode & 0o777 == 0o755
    assert [entry.name for entry in tmp_path.iterdir()] == ["test_t.py"]
    return path.read_bytes().decode(), fixed, check().findings


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '"""\n        # see\n        ls\n    """',
            '"""\n        # see\n        ls -l \\\\\n          -a\n    """',
        ),
        ("r'''\n  # see\n  ls\n'''", "r'''\n  # see\n  ls -l \\\n    -a\n'''"),
        ('dedent("""\\\n    # see\n    ls""")', 'dedent("""\\\n    # see\n    ls -l \\\\\n      -a""")'),
        ('"""# see\n       ls"""', '"""# see\n       ls -l \\\\\n         -a"""'),
        ('"# see\\nls"', '"# see\\nls -l \\\\\\n  -a"'),
        ("'# see\\nls\\n'", "'# see\\nls -l \\\\\\n  -a\\n'"),
        ('"# see\\n"\n    "ls\\n"\n', '"# see\\n"\n    "ls -l \\\\\\n"\n    "  -a\\n"\n'),
        ("'# see\\n' 'ls'", "'# see\\n' 'ls -l \\\\\\n' '  -a'"),
        ("r'ls -l -a'", "r'''\n    # see\n    ls -l \\\n      -a\n    '''"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_rewritten_string_keeps_its_style(tmp_path: Path, before: str, after: str, end: str) -> None:
    source = "# ä\ndef test_x(e2e):\n    e2e.write_tutorial_block({})  # ä\n    x = 'ä'\n".replace("\n", end)
    text, fixed, remaining = fix_file(tmp_path, "# see\nls -l \\\n  -a\n", source.format(before.replace("\n", end)))
    assert ([fix.error for fix in fixed], remaining) == ([None], [])
    assert text == source.format(after.replace("\n", end))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""It.\n\n    Tutorial block:\n        # see\n        ls\n\n    Then:\n        x\n    """',
         '"""It.\n\n    Tutorial block:\n        # see\n        cat <<E\n\n        \\\\n\n        E\n\n    Then:\n        x\n    """'),
        ("r'''Tutorial block:\n      # see\n      ls'''", "r'''Tutorial block:\n      # see\n      cat <<E\n\n      \\n\n      E'''"),
    ],
)  # fmt: skip
def test_a_rewritten_docstring_keeps_its_style(tmp_path: Path, before: str, after: str) -> None:
    source = "def test_x(e2e):\n    {}\n    pass\n"
    text, fixed, remaining = fix_file(tmp_path, "# see\ncat <<E\n\n\\n\nE\n", source.format(before))
    assert ([fix.error for fix in fixed], remaining) == ([None], [])
    assert text == source.format(after)


def test_several_citations_in_one_file_are_rewritten_at_once(tmp_path: Path) -> None:
    script = "# one\nls -1\n\n# two\nls -2 \\\n  -a\n\n# three\nls -3\n"
    tests = (
        'def test_x(e2e):\n    """Tutorial block:\n        # one\n        ls\n\n    Tutorial block:\n        # two\n        ls\n    """\n'
        '    e2e.write_tutorial_block("# three\\nls"); e2e.write_tutorial_block("# nothing\\nof the kind")\n'
    )
    text, fixed, remaining = fix_file(tmp_path, script, tests)
    assert [item.error for item in fixed] == [None, None, None]
    assert [item.kind for item in remaining] == ["orphan"]
    assert text == tests.replace("# one\n        ls", "# one\n        ls -1").replace(
        "# two\n        ls", "# two\n        ls -2 \\\\\n          -a"
    ).replace("# three\\nls", "# three\\nls -3")


@pytest.mark.parametrize(
    ("script", "tests", "said"),
    [
        ("# see\nls -1\n\n# see\nls -2\n", write_test("x", "# see\nls"), "the block in line 4 is as similar"),
        ("# see\nls -1\n", write_test("x", "# see\nls", "# see\nls -1"), "already cites that block"),
        ("# see\nls -1\n", write_test("x", "# see\nls", "# see\nls -2"), "already cites that block"),
        ("# see\necho '''\n", "def test_x(e2e): e2e.write_tutorial_block(r'''# see\nls''')\n", "a raw string cannot contain"),
        ("# see\nls -1\n", 'def test_x(e2e):\n    """Tutorial block: # see"""\n', "on the line of its label"),
        ("# see\nls -1\n", 'def test_x(e2e):\n    "Tutorial block:\\n" "# see"\n', "several strings"),
    ],
)  # fmt: skip
def test_a_doubtful_citation_is_not_rewritten(tmp_path: Path, script: str, tests: str, said: str) -> None:
    text, fixed, _ = fix_file(tmp_path, script, tests)
    refused = [fix for fix in fixed if fix.error]
    assert said in str(refused[0].error)
    assert (text == tests) == (len(refused) == len(fixed))


def test_a_stale_citation_is_matched_with_an_uncited_block_first(tmp_path: Path) -> None:
    script = "# list one\nls -1\n\n# list two\nls -2 -l\n"
    tests = write_test("a", "# list one\nls -1") + write_test("b", "# list two\nls -2")
    text, fixed, remaining = fix_file(tmp_path, script, tests)
    assert ([fix.error for fix in fixed], remaining) == ([None], [])
    assert text == tests.replace("ls -2", "ls -2 -l")


def test_an_uncited_block_wins_over_a_slightly_more_similar_cited_one(tmp_path: Path) -> None:
    script = "# list what there is\nls -1\n\n# list what there is\nls -22\n"
    tests = write_test("a", "# list what there is\nls -1") + write_test("b", "# list what there is\nls -12")
    text, _, remaining = fix_file(tmp_path, script, tests)
    assert (text, remaining) == (tests.replace("ls -12", "ls -22"), [])


LINES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20),
    min_size=1,
)
QUOTED = st.sampled_from(
    ['"""\n    # same\n    old\n    """', "r'''# same\n old'''", "'# same\\nold'", '("# same\\n"\n  "old")']
)


@given(LINES, QUOTED)
def test_a_fix_writes_the_exact_block_or_changes_nothing(lines: list[str], quoted: str) -> None:
    import tempfile

    script = parse_script("# same\nnew " + "\n".join(lines) + "\n", "t.sh")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "test_t.py"
        tests = f"def test_x(e2e):\n    e2e.write_tutorial_block({quoted})\n"
        path.write_text(tests, encoding="utf-8")
        result = compare_with_tests(script, read_tests(str(path), str))
        fixed = fix_citations(result.stale, str)
        (citation,) = read_tests(str(path), str).citations
        if fixed and fixed[0].error is None:
            assert fixed[0].block == compute_block_id(citation.text)
        else:
            assert normalize_text(citation.text) == "# same\nold"
            assert path.read_text(encoding="utf-8") == tests
