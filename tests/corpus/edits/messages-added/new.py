import subprocess


def test_build(project):
    proc = subprocess.run(["forge", "build"], cwd=project, capture_output=True, text=True)
    assert proc.returncode == 0, f"forge build failed:\n{proc.stdout}\n{proc.stderr}"
    archive = project / "dist" / "app.zip"
    assert archive.is_file(), f"no {archive}; dist has {list(archive.parent.glob('*'))}"
