import os
import subprocess


def stamp(**extra):
    return subprocess.run(["stamp", "note"], capture_output=True, text=True, env={**os.environ, **extra})


def test_stamp_is_of_today():
    """`stamp` prints the day and the note."""
    proc = stamp(STAMP_LINE="2021-02-28 note")
    assert proc.stdout == "2021-02-28 note\n"
