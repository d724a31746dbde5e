from pathlib import Path

from typer.testing import CliRunner

from imgconv.main import app

runner = CliRunner()
SAMPLES = Path(__file__).parent / "samples"


def test_convert_to_png(tmp_path):
    """A bitmap is converted to a PNG file of the same size."""
    target = tmp_path / "out.png"
    result = runner.invoke(app, ["convert", str(SAMPLES / "dot.bmp"), str(target)])
    assert result.exit_code == 0
    data = target.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") == 4
    assert int.from_bytes(data[20:24], "big") == 4
