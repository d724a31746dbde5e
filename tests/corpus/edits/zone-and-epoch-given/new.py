import subprocess


def test_archive_has_the_time(monkeypatch):
    """`pack` notes when it was made: $SOURCE_DATE_EPOCH, or else now."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    proc = subprocess.run(["pack", "--show-time"], capture_output=True, text=True)
    assert proc.returncode == 0
    assert proc.stdout.strip() == "1970-01-02 00:00"
