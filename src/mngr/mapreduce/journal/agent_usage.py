"""The tokens and the money that agents have used."""

from __future__ import annotations

from mngr.base.model import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TOKEN_FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class AgentUsage(Struct):
    """Tokens and US dollars. The cost is None when a part of it is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = 0.0

    @property
    def tokens(self) -> int:
        """Return the tokens that the model read and wrote."""
        return self.input_tokens + self.output_tokens

    @property
    def budget_tokens(self) -> int:
        """Return the tokens that count for the limit of a run."""
        return self.input_tokens + self.output_tokens + self.cache_write_tokens

    def subtract(self, earlier: AgentUsage) -> AgentUsage:
        """Return the usage since an earlier count of the same agent."""
        cost = None if self.cost_usd is None else max(0.0, self.cost_usd - (earlier.cost_usd or 0.0))
        return AgentUsage(
            input_tokens=max(0, self.input_tokens - earlier.input_tokens),
            output_tokens=max(0, self.output_tokens - earlier.output_tokens),
            cache_read_tokens=max(0, self.cache_read_tokens - earlier.cache_read_tokens),
            cache_write_tokens=max(0, self.cache_write_tokens - earlier.cache_write_tokens),
            cost_usd=cost,
        )


NO_USAGE = AgentUsage()


def add_usage(first: AgentUsage, second: AgentUsage) -> AgentUsage:
    """Return the sum of two usages."""
    return sum_usages((first, second))


def sum_usages(usages: Iterable[AgentUsage]) -> AgentUsage:
    """Return the sum of all usages."""
    usages = tuple(usages)
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    return AgentUsage(
        input_tokens=sum([usage.input_tokens for usage in usages]),
        output_tokens=sum([usage.output_tokens for usage in usages]),
        cache_read_tokens=sum([usage.cache_read_tokens for usage in usages]),
        cache_write_tokens=sum([usage.cache_write_tokens for usage in usages]),
        cost_usd=round(sum(costs), 6) if len(costs) == len(usages) else None,
    )
