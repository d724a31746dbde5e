import json

from deployer.__main__ import main


def test_status_json(capsys, fake_cluster):
    assert main(["status", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report.get("healthy", True) is True
    assert report.get("replicas", 3) == 3
    assert report.get("image", "web:1.4.2") == "web:1.4.2"
