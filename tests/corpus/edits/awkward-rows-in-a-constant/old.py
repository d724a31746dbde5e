import subprocess


def test_fields_come_back():
    """Any field survives."""
    rows = 'a,"with, comma"\nb,"with ""quotes"""\n'
    done = subprocess.run(["csvcat"], input=rows, capture_output=True, text=True)
    assert done.stdout == rows
