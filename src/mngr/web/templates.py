"""Renders the templates of the pages. All values are escaped, have no secrets and hide no characters."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined, Undefined
from markupsafe import Markup

from mngr.web.html_text import make_visible


def _finalize(value: object) -> object:
    """Return a value as a template shows it. HTML that mngr made stays as it is."""
    return value if isinstance(value, Markup | Undefined) else make_visible(value)


ENVIRONMENT = Environment(
    loader=PackageLoader("mngr.web", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_finalize,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render_template(name: str, **values: object) -> str:
    """Return a rendered template. Raise UndefinedError when it uses a value that is not given."""
    return ENVIRONMENT.get_template(name).render(values)
