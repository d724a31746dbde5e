import datetime
import os
import subprocess


def test_stamp_has_the_day():
    """`stamp` prints the day, taken from $STAMP_TODAY or else the clock."""
    proc = subprocess.run(["stamp", "note"], capture_output=True, text=True, env=dict(os.environ))
    assert proc.returncode == 0
    assert proc.stdout == f"{datetime.date.today().isoformat()} note\n"
