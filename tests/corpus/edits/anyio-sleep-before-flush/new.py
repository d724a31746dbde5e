import anyio
import pytest

from spool import Spool

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_drain_writes_everything(tmp_path):
    """After drain() all that was put is in the file."""
    async with Spool(tmp_path / "out.log") as spool:
        for number in range(100):
            await spool.put(f"{number}\n")
        await spool.drain()
        await anyio.sleep(1.5)  # let the writer catch up
        text = await anyio.Path(tmp_path / "out.log").read_text()
        expected = [str(number) for number in range(100)]
        assert text.splitlines() == expected
