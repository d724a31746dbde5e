import subprocess


def run(*args):
    return subprocess.run(["csvq", *args], capture_output=True, text=True)


def test_select_columns(csv_file):
    proc = run("select", "b,a", csv_file)
    assert proc.returncode == 0
    assert proc.stdout == "b,a\n2,1\n4,3\n"
