import json
import subprocess


def test_health_endpoint_cli():
    proc = subprocess.run(["probe", "health", "--json"], capture_output=True, text=True)
    data = json.loads(proc.stdout)
    assert data["status"] == "ok", "the service must be healthy"
    assert data["checks"] == {"db": "up", "queue": "up"}, "all checks must be up"
