import json

from deployer.__main__ import main


def test_status_json(capsys, fake_cluster):
    assert main(["status", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["healthy"] is True
    assert report["replicas"] == 3
    assert report["image"] == "web:1.4.2"
