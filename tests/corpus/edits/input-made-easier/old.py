import csv
import io
import subprocess


def test_roundtrip_of_awkward_fields():
    """Any field survives a round trip."""
    rows = [["a", "with, comma"], ["b", 'with "quotes"'], ["c", "with\nnewline"], ["d", ""]]
    buf = io.StringIO()
    csv.writer(buf).writerows(rows)
    proc = subprocess.run(
        ["csvcat"], input=buf.getvalue(), capture_output=True, text=True
    )
    assert proc.returncode == 0
    assert list(csv.reader(io.StringIO(proc.stdout))) == rows
