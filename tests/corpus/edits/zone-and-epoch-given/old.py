import subprocess
import time


def test_archive_has_the_time():
    """`pack` notes when it was made: $SOURCE_DATE_EPOCH, or else now."""
    proc = subprocess.run(["pack", "--show-time"], capture_output=True, text=True)
    assert proc.returncode == 0
    assert proc.stdout.strip() == time.strftime("%Y-%m-%d %H:%M")
