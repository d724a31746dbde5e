import datetime
import subprocess


def test_stamp_is_of_today():
    """`stamp` prints the day and the note."""
    proc = subprocess.run(["stamp", "note"], capture_output=True, text=True)
    assert proc.stdout == f"{datetime.date.today().isoformat()} note\n"
