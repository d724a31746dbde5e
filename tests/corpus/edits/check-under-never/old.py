import subprocess


def test_sum_of_a_column(tmp_path):
    """Sums up a column by its name."""
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    done = subprocess.run(["cols", "sum", "b", "t.csv"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "6\n"


def test_unknown_column(tmp_path):
    """A column that is not there is an error."""
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    assert subprocess.run(["cols", "sum", "z", "t.csv"], cwd=tmp_path).returncode == 1
