import datetime
import os
import subprocess


def stamp(**extra):
    env = {k: v for k, v in os.environ.items() if k != "STAMP_TODAY"}
    return subprocess.run(["stamp", "note"], capture_output=True, text=True, env={**env, **extra})


def test_stamp_has_the_day():
    """`stamp` prints the day, taken from $STAMP_TODAY or else the clock."""
    proc = stamp(STAMP_TODAY="2021-02-28")
    assert proc.returncode == 0
    assert proc.stdout == "2021-02-28 note\n"


def test_stamp_uses_the_clock():
    before = datetime.date.today().isoformat()
    proc = stamp()
    after = datetime.date.today().isoformat()
    assert proc.returncode == 0
    assert proc.stdout in (f"{before} note\n", f"{after} note\n")
