"""Names and addresses."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.base import names_and_addresses
from mngr.base.errors import UsageError
from mngr.base.names_and_addresses import Address

NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,62}", fullmatch=True)
HOSTS = st.from_regex(r"[a-z0-9][a-z0-9-]{0,10}", fullmatch=True)
ADDRESSES = st.builds(
    Address,
    name=NAMES,
    host=st.none() | HOSTS,
    provider=st.none() | st.sampled_from(names_and_addresses.PROVIDER_NAMES),
    path=st.none() | st.text(max_size=10),
)


@given(ADDRESSES)
def test_an_address_round_trips(address: Address) -> None:
    assert names_and_addresses.parse_address(str(address)) == address


@given(HOSTS, st.none() | st.sampled_from(names_and_addresses.PROVIDER_NAMES))
def test_a_host_alone_is_an_address(host: str, provider: str | None) -> None:
    address = Address(host=host, provider=provider)
    assert names_and_addresses.parse_address(str(address)) == address


@given(st.text())
def test_any_text_parses_or_raises_usage_error_with_a_hint(text: str) -> None:
    try:
        address = names_and_addresses.parse_address(text)
    except UsageError as error:
        assert error.hint
    else:
        assert str(address) == text


@given(st.text())
def test_valid_names_are_those_that_match_the_pattern(text: str) -> None:
    assert names_and_addresses.is_agent_name(text) == bool(re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,62}", text))


@given(NAMES)
def test_every_name_that_matches_the_pattern_is_accepted(name: str) -> None:
    assert names_and_addresses.is_agent_name(name)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("foo", Address(name="foo")),
        ("foo@box", Address(name="foo", host="box")),
        ("foo@box.docker", Address(name="foo", host="box", provider="docker")),
        ("foo@.modal", Address(name="foo", provider="modal")),
        ("@box", Address(host="box")),
        ("foo:out/x.json", Address(name="foo", path="out/x.json")),
        ("foo@10.0.0.5", Address(name="foo", host="10.0.0.5")),
        ("foo@host.example.com", Address(name="foo", host="host.example.com")),
        ("foo@a.b.ssh:p:q@r", Address(name="foo", host="a.b", provider="ssh", path="p:q@r")),
        ("foo:", Address(name="foo", path="")),
    ],
)
def test_all_forms_of_an_address_are_parsed(text: str, address: Address) -> None:
    assert names_and_addresses.parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "@", "foo@", "Foo", "-foo", "foo bar", "foo@.nowhere", "foo@-x", "fö", "foo@b/x", ":x"]
)
def test_an_invalid_address_raises_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        names_and_addresses.parse_address(text)


def test_a_provider_of_a_plugin_is_recognized_in_an_address() -> None:
    assert names_and_addresses.parse_address("foo@x.mine", ("mine",)) == Address(name="foo", host="x", provider="mine")
    assert names_and_addresses.parse_address("foo@x.mine") == Address(name="foo", host="x.mine")


def test_the_error_for_an_invalid_name_suggests_a_valid_one() -> None:
    with pytest.raises(UsageError) as caught:
        names_and_addresses.check_name("My Agent!")
    assert "'my-agent'" in (caught.value.hint or "")


def test_a_name_that_looks_like_an_id_is_rejected() -> None:
    with pytest.raises(UsageError, match="looks like an agent's id"):
        names_and_addresses.check_name(names_and_addresses.generate_id())


def test_generated_ids_and_names_are_valid() -> None:
    assert all(names_and_addresses.is_agent_id(names_and_addresses.generate_id()) for _ in range(100))
    assert all(names_and_addresses.is_agent_name(names_and_addresses.generate_name()) for _ in range(100))
    assert len({names_and_addresses.generate_id() for _ in range(100)}) == 100


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("on", []),
        ("off", []),
        ("allow=API.example.com:443, example.org", [("api.example.com", 443), ("example.org", None)]),
        ("allow=10.0.0.1:22,[::1]:80,[fe80::1]", [("10.0.0.1", 22), ("::1", 80), ("fe80::1", None)]),
    ],
)
def test_the_network_option_is_parsed_into_mode_and_destinations(
    text: str, places: list[tuple[str, int | None]]
) -> None:
    assert names_and_addresses.parse_network(text) == (text.partition("=")[0], places)


@pytest.mark.parametrize(
    "text",
    "maybe,off=x,allow,allow=,allow=a:,allow=a:0,allow=a:70000,allow=a:b,allow=*.a,allow=::1,allow=[::1]x,allow=a b".split(
        ","
    ),
)
def test_an_invalid_network_option_raises_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--network"):
        names_and_addresses.parse_network(text)
