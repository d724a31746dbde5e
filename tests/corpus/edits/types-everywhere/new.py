from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from wordbank import Bank


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    file = tmp_path / "words.txt"
    file.write_text("apple\npear\nplum\n")
    with Bank(file) as bank:
        yield bank


@pytest.mark.parametrize("prefix, expected", [("p", ["pear", "plum"]), ("a", ["apple"]), ("x", [])])
def test_prefix(bank: Bank, prefix: str, expected: list[str]) -> None:
    assert bank.starting_with(prefix) == expected


def test_missing_file() -> None:
    with pytest.raises(FileNotFoundError):
        Bank(Path("nowhere.txt"))
