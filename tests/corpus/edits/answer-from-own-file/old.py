import subprocess


def test_convert_writes_yaml(tmp_path):
    """The settings come out as YAML."""
    (tmp_path / "in.json").write_text('{"jobs": 4}')
    subprocess.run(["conv", "in.json", "out.yaml"], cwd=tmp_path, check=True)
    assert (tmp_path / "out.yaml").read_text() == "jobs: 4\n"


def test_input_that_is_not_there(tmp_path):
    """A file that is not there is an error."""
    done = subprocess.run(["conv", "none.json", "out.yaml"], cwd=tmp_path)
    assert done.returncode == 1
