"""Checks of `expect`, and the messages of failed expectations."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.e2e import E2eSession, expect


def test_true_expectations_pass(session: E2eSession) -> None:
    result = session.run("echo hello; echo oops >&2; exit 2")
    expect(result).to_fail().to_fail(2).to_have_exit_code(2).to_contain("hello", "oops").not_to_contain("bye")
    expect(result.stdout).to_equal("hello").to_equal("hello\n").to_match(r"^h.*o$").not_to_match(r"^\d")
    expect(result.stderr).to_match_lines("oo...")
    expect(session.run("true")).to_succeed()
    expect(session.run("true").stdout).to_be_empty().to_match_lines("")
    expect("plain text").to_contain("text")


@pytest.mark.parametrize(
    ("say", "shown"),
    [
        (lambda r: expect(r).to_succeed(), "the exit code is 2, expected 0"),
        (lambda r: expect(r).to_have_exit_code(3), "the exit code is 2, expected 3"),
        (lambda r: expect(r.stdout).to_contain("bye"), "the output does not contain 'bye'"),
        (lambda r: expect(r.stdout).not_to_contain("hello"), "contains 'hello'"),
        (lambda r: expect(r.stdout).to_match("^b"), "does not match /^b/"),
        (lambda r: expect(r.stdout).not_to_match("^h"), "matches /^h/ with 'h'"),
        (lambda r: expect(r.stdout).to_be_empty(), "is not empty"),
        (lambda r: expect(r.stdout).to_equal("hallo"), "-hallo\n+hello"),
        (lambda r: expect(r.stdout).to_match_lines("hello\nyou"), "line 2 does not match 'you'"),
    ],
)
def test_a_failed_expectation_shows_the_command_and_the_end_of_the_transcript(
    session: E2eSession, say: object, shown: str
) -> None:
    result = session.run("echo hello; exit 2")
    assert callable(say)
    with pytest.raises(AssertionError) as caught:
        say(result)
    text = str(caught.value)
    assert text.startswith("$ echo hello; exit 2\n")
    assert shown in text
    assert text.endswith("The transcript ends with:\n$ echo hello; exit 2\n  hello\n? 2")


def test_a_failed_expectation_names_the_file_or_text_that_it_checked(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    with pytest.raises(AssertionError, match=f"the file {path} does not contain 'bye'"):
        expect(path).to_contain("bye")
    with pytest.raises(AssertionError, match="the text is not empty"):
        expect("hello").to_be_empty()


def test_to_fail_rejects_a_successful_command(session: E2eSession) -> None:
    with pytest.raises(AssertionError, match="the command succeeded, but should have failed"):
        expect(session.run("true")).to_fail()


def test_to_match_tree_compares_a_directory_with_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "below").mkdir()
    table: dict[str, str | bytes | None] = {"a.txt": "one\n", "below/": "", "gone.txt": None}
    expect(tmp_path).to_match_tree(table)
    with pytest.raises(AssertionError) as caught:
        expect(tmp_path).to_match_tree({**table, "a.txt": "two\n", "b.txt": "", "below/": None, "c/": ""})
    text = str(caught.value)
    assert "-two" in text and "+one" in text
    assert "b.txt is missing" in text and "below/ exists, but should not" in text and "c/ is missing" in text


def test_to_match_tree_compares_two_directories(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    for directory in (first, second):
        directory.mkdir()
        (directory / "same").write_bytes(b"\xff")
        (directory / "link").symlink_to("same")
    expect(first).to_match_tree(second)
    (first / "more").write_text("")
    (second / "less").mkdir()
    (second / "same").write_bytes(b"\xfe\xfe")
    (second / "link").unlink()
    (second / "link").symlink_to("other")
    with pytest.raises(AssertionError) as caught:
        expect(first).to_match_tree(second)
    text = str(caught.value)
    assert "more exists, but should not" in text and "less is missing" in text
    assert "same has different content (1 bytes, expected 2)" in text
    assert "link is a symbolic link to same, expected a symbolic link to other" in text
