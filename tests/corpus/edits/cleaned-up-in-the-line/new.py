from mngr.e2e import E2eSession, expect


def test_pack_and_unpack(e2e: E2eSession) -> None:
    """What was packed can be unpacked."""
    expect(e2e.run("crate pack a.txt -o a.crate && crate unpack a.crate && rm a.crate")).to_succeed()
