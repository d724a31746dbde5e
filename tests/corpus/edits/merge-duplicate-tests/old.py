import json
import subprocess


def test_report_exit_code(project):
    proc = subprocess.run(["covr", "report", "--json"], cwd=project, capture_output=True, text=True)
    assert proc.returncode == 0


def test_report_totals(project):
    proc = subprocess.run(["covr", "report", "--json"], cwd=project, capture_output=True, text=True)
    totals = json.loads(proc.stdout)["totals"]
    assert totals["lines"] == 40
    assert totals["covered"] == 31
    assert totals["percent"] == 77.5
