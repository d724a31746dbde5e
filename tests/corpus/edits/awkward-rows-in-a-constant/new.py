import subprocess

ROWS = 'a,"with, comma"\nb,"with ""quotes"""\nc,"ends with blank "\n'


def test_fields_come_back():
    """Any field survives."""
    done = subprocess.run(["csvcat"], input=ROWS, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == ROWS
