import re

from journal.cli import main

STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")


def test_entry(tmp_path, monkeypatch, capsys):
    """An entry is shown with its time."""
    monkeypatch.chdir(tmp_path)
    main(["write", "rain again"])
    main(["show"])
    out = capsys.readouterr().out
    assert STAMP.search(out)
    assert out == "2024-03-01 10:22  rain again\n"
