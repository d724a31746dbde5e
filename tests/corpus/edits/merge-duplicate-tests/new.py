import json
import subprocess


def test_report(project):
    proc = subprocess.run(["covr", "report", "--json"], cwd=project, capture_output=True, text=True)
    assert proc.returncode == 0, proc.stderr
    assert json.loads(proc.stdout)["totals"] == {"lines": 40, "covered": 31, "percent": 77.5}
