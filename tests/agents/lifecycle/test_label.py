"""Tests `mngr label`."""

from __future__ import annotations

import concurrent.futures

from tests.conftest import MngrProgram

RUN = ("--", "sleep", "1000")


def test_labels_are_set_changed_and_removed(mngr: MngrProgram) -> None:
    mngr("create", "w", "--count", "2", "--label", "team=red", *RUN)
    assert mngr("label", "w-1", "w-2", "size=l", "team=").out == "w-1: team= size=l\nw-2: team= size=l\n"
    assert mngr.get_agent("w-2")["labels"] == {"team": "", "size": "l"}
    assert mngr("label", "w-1", "team-", "size-", "nothing-").out == "w-1: no labels\n"
    assert mngr.get_agent("w-1")["labels"] == {} and mngr.get_agent("w-2")["labels"]["size"] == "l"
    rows = mngr.run_json("label", "w-1", "nobody", "a=b=c", code=4)["results"]
    assert [(r["name"], r["ok"]) for r in rows] == [("w-1", True), ("nobody", False)]
    assert rows[0]["labels"] == {"a": "b=c"} == mngr.get_agent("w-1")["labels"]
    assert mngr("label", "-", "x=y", stdin="w-1\nw-2\n").out.count("x=y") == 2


def test_parallel_changes_of_labels_are_all_kept(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: mngr("label", "foo", f"k{n}=v"), range(6)))
    assert mngr.get_agent("foo")["labels"] == {f"k{n}": "v" for n in range(6)}


def test_control_characters_in_labels_are_not_printed(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    assert mngr("label", "foo", "a=\x1b[31m").out == "foo: a=?[31m\n"
    assert mngr("list", "--fields", "labels").out == "LABELS\na=?[31m\n"


def test_label_rejects_missing_or_invalid_arguments(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    for words in (("foo",), ("a=b",), ("foo", "=b"), ()):
        assert "Hint:" in mngr("label", *words, code=2).err
    assert mngr.get_agent("foo")["labels"] == {}
