"""Exit statuses of `mill`.

From the manual, section EXIT STATUS:

    0   success
    1   at least one input could not be ground
    2   usage error; nothing was done
"""
import subprocess


def test_usage_error():
    proc = subprocess.run(["mill", "grind", "--jobs=x"], capture_output=True, text=True)
    assert proc.returncode == 1
    assert proc.stderr.startswith("mill: --jobs: ")
    assert proc.stdout == ""
