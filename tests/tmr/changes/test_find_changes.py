"""Tests which changes a word of the user refers to, and which changes depend on them."""

from __future__ import annotations

import pytest

from mngr.base.errors import MngrError, NotFound
from mngr.tmr.changes.collect_changes import Change, ChangeAuthor, ChangeSize
from mngr.tmr.changes.find_changes import (
    get_changes,
    list_dependents,
    list_shared_changes,
    make_exclusion_request,
    refresh_exclusion_request,
)
from mngr.tmr.changes.integration_record import BranchCommit


def make_author(task: str, *commits: str, claimed_commit: str = "") -> ChangeAuthor:
    return ChangeAuthor(
        task=task, title=f"tests/test_app.py::{task}", agent=f"tmr-{task}", commits=list(commits),
        claimed_commit=claimed_commit or commits[-1], verdict="confirmed", runs="3/3",
    )  # fmt: skip


def make_change(key: str, *makers: ChangeAuthor, needs: tuple[str, ...] = ()) -> Change:
    return Change(
        id=key[:6], key=key.ljust(64, "0"), kind="fix", flagged=False, title=f"Fix {key[:6]}", body="", made_by=list(makers),
        commit=key[::-1].ljust(40, "e"), parent="f" * 40, needs=list(needs), paths=["a"], findings=[], fixed_tests=[],
        size=ChangeSize(files=1, added=1, removed=1), author="A <a@b>", authored="1 +0000", committed="1 +0000",
    )  # fmt: skip


ONE, BOTH, OTHER = "1" * 40, "2" * 40, "3" * 40
OWN = make_change("aa11110", make_author("ann", ONE, claimed_commit=OTHER))
SHARED = make_change("aa11120", make_author("ann", BOTH, claimed_commit=OTHER), make_author("bob", BOTH))
BOBS = make_change("bb2222", make_author("bob", "4" * 40), needs=("aa1112",))
EVES = make_change("cc3333", make_author("eve", "123456" + "5" * 34), needs=("bb2222",))
CHANGES = [EVES, OWN, SHARED, BOBS]


def make_commit(commit: str, *changes: str) -> BranchCommit:
    return BranchCommit(commit=commit, tree="", changes=list(changes), kind="fix", subject="")


MADE = [make_commit("9" * 40, "aa1111", "bb2222"), make_commit("aa1119" + "9" * 34, "cc3333")]


@pytest.mark.parametrize(
    ("what", "ids"),
    [
        ("aa1111", ["aa1111"]),
        ("AA1111", ["aa1111"]),
        ("b", ["bb2222"]),
        (OWN.key, ["aa1111"]),
        ("ann", ["aa1111"]),
        ("tests/test_app.py::bob", ["bb2222"]),
        ("999999", ["aa1111", "bb2222"]),
        ("123456", ["cc3333"]),
        (ONE, ["aa1111"]),
        (BOTH, ["aa1112"]),
        ("222222", ["aa1112"]),
        (OTHER[:7], ["aa1111", "aa1112"]),
        (BOBS.commit, ["bb2222"]),
        ("aa1119", ["cc3333"]),
    ],
)  # fmt: skip
def test_a_task_change_id_or_commit_selects_its_changes(what: str, ids: list[str]) -> None:
    assert [change_found.id for change_found in get_changes(CHANGES, what, MADE)] == ids


def test_a_task_does_not_select_changes_that_other_tasks_made_too() -> None:
    assert list_shared_changes(CHANGES, "ann") == list_shared_changes(CHANGES, "tests/test_app.py::ann") == [SHARED]
    assert list_shared_changes(CHANGES, "eve") == list_shared_changes(CHANGES, "aa1112") == []
    with pytest.raises(MngrError, match="other tasks also made every change of ann") as error:
        get_changes([SHARED], "ann")
    assert error.value.hint == "name a change instead of the task: aa1112"


def test_an_ambiguous_or_unknown_word_fails_with_a_hint() -> None:
    with pytest.raises(MngrError, match="'aa' is ambiguous: change aa1111, change aa1112") as error:
        get_changes(CHANGES, "aa")
    assert error.value.hint == "give more digits of the change's id"
    clash = [make_commit("bb2222" + "0" * 34, "cc3333")]
    assert get_changes(CHANGES, "bb2222", clash) == [BOBS], "who writes an id to the letter means the change"
    with pytest.raises(MngrError, match="'bb22220' is ambiguous: change bb2222, commit bb2222000000"):
        get_changes(CHANGES, "bb22220", clash)
    for what, hint in (("anne", "did you mean 'ann'?"), ("99999", "list them: mngr tmr changes"), ("aa1121", "did you mean 'aa1112'?")):  # fmt: skip
        with pytest.raises(NotFound) as missing:
            get_changes(CHANGES, what, MADE)
        assert missing.value.hint == hint


def test_dependents_of_an_excluded_change_are_listed_with_the_reason() -> None:
    assert [(dependent.id, reason) for dependent, reason in list_dependents(CHANGES, {"aa1112"})] == [
        ("bb2222", "it needs aa1112 (Fix aa1112)"),
        ("cc3333", "it needs bb2222 (Fix bb2222)"),
    ]
    assert list_dependents(CHANGES, {"aa1111"}) == list_dependents(CHANGES, set()) == []
    assert [dependent.id for dependent, _ in list_dependents(CHANGES, {"aa1112", "bb2222"})] == ["cc3333"]


def test_an_exclusion_follows_an_edit_whose_key_changes() -> None:
    request = make_exclusion_request("aa1111", [OWN], "no")
    assert refresh_exclusion_request(request, CHANGES) == request
    merged = make_change("dd4444", make_author("ann", ONE), make_author("dan", "6" * 40))
    rest = make_change("dd5555", make_author("dan", "6" * 40))
    refreshed = refresh_exclusion_request(request, [merged, rest, EVES])
    assert refreshed.keys == [merged.key] and refreshed.reason == "no"
    assert refresh_exclusion_request(refreshed, CHANGES).keys == [OWN.key], "and when they have taken it back"
    assert refresh_exclusion_request(request, [EVES]).keys == [OWN.key], "it may come again"
