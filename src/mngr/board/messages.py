"""The text above the list: the numbers of agents, the filter and the hosts that do not answer."""

from __future__ import annotations

from rich.text import Text

from mngr.overview.card_words import list_counts
from mngr.overview.subscription import Overview
from mngr.overview.untrusted_text import clean_line


def format_summary(overview: Overview, shown: int, filter_text: str) -> Text:
    """Return how many agents each group has, the filter, and the hosts that do not answer."""
    if not overview.is_complete and not overview.agents:
        return Text("looking for agents", style="dim")
    if not overview.agents:
        return Text("there are no agents; create one: mngr create NAME claude")
    text = Text(" · ".join(list_counts(overview.agents)), style="bold", no_wrap=True, overflow="ellipsis")
    if filter_text:
        text.append(f"  filter: {clean_line(filter_text)} ({shown} of {len(overview.agents)})", "not bold")
    for host, error in list(overview.errors.items())[:3]:
        text.append(f"  {clean_line(host, 40)}: {clean_line(error, 100)}", "bold red")
    return text
