import subprocess


def test_build(project):
    proc = subprocess.run(["forge", "build"], cwd=project, capture_output=True, text=True)
    assert proc.returncode == 0
    assert (project / "dist" / "app.zip").is_file()
