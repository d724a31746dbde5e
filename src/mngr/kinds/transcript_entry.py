"""Defines an entry of a conversation in mngr's schema, which is the same for all kinds."""

from __future__ import annotations

from mngr.base.model import Struct
from mngr.base.untrusted_json import find_int, find_number, find_text, parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mngr.base.untrusted_json import JsonObject

ROLES = ("user", "assistant", "tool")


class TokenUsage(Struct):
    """The tokens and the cost of a model's answer, as far as the program reports them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None  # the part of cache_write_tokens that goes to the one-hour cache
    calls: int | None = None  # the number of answers, if the tokens are those of several
    cost_usd: float | None = None
    other_price: bool = False  # the usual price of the model does not apply

    @property
    def total_tokens(self) -> int:
        """Return the sum of all tokens."""
        counts = (self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens)
        return sum(count or 0 for count in counts)

    def to_dict(self) -> JsonObject:
        """Return the JSON form: only the reported fields."""
        fields = super().to_dict().items()
        return {name: value for name, value in fields if value is not None and value is not False}


class TranscriptEntry(Struct):
    """A message, an answer, or a tool's call together with its result."""

    at: str | None = None
    role: str  # one of ROLES
    text: str = ""
    tool: str | None = None
    input: object = None  # the tool's input, as the program records it
    output: str | None = None  # the tool's output
    model: str | None = None
    usage: TokenUsage | None = None

    def to_dict(self) -> JsonObject:
        """Return the JSON form, which `mngr transcript --format json` prints."""
        usage = None if self.usage is None else self.usage.to_dict()
        return {"v": 1, **super().to_dict(), "usage": usage}


def parse_json_lines(lines: Iterable[bytes]) -> Iterator[JsonObject]:
    """Yield the JSON objects among the lines and skip everything else."""

    for line in lines:
        try:
            row = parse_json(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def parse_entries(lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
    """Yield the entries of a transcript that is already in mngr's schema, and skip everything else."""
    for row in parse_json_lines(lines):
        role, text = find_text(row, "role"), find_text(row, "text")
        if role in ROLES and text is not None:
            yield TranscriptEntry(
                at=find_text(row, "at"),
                role=role,
                text=text,
                tool=find_text(row, "tool"),
                input=row.get("input"),
                output=find_text(row, "output"),
                model=find_text(row, "model"),
                usage=_find_usage(row.get("usage")),
            )


def _find_usage(usage: object) -> TokenUsage | None:
    if not isinstance(usage, dict):
        return None
    return TokenUsage(
        input_tokens=find_int(usage, "input_tokens"),
        output_tokens=find_int(usage, "output_tokens"),
        cache_read_tokens=find_int(usage, "cache_read_tokens"),
        cache_write_tokens=find_int(usage, "cache_write_tokens"),
        cache_write_1h_tokens=find_int(usage, "cache_write_1h_tokens"),
        calls=find_int(usage, "calls"),
        cost_usd=find_number(usage, "cost_usd"),
        other_price=bool(usage.get("other_price")),
    )
