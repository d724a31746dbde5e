"""The frame of all pages of a report: head, sections and colours."""

from __future__ import annotations

from mngr.web import e2e_run_pages

_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self' file: 'wasm-unsafe-eval'; style-src 'self' file: 'unsafe-inline'; img-src data:; "
    "font-src data:; connect-src data: blob:; worker-src blob:; form-action 'none'; base-uri 'none'"
)


def render_report_page(
    title: str, body: str, up: str, *, is_live: bool, plays: bool = False, fingerprint: str = ""
) -> str:
    """Return a page of a report around a body; a live page reloads itself from time to time."""
    refresh_tag = '<noscript><meta http-equiv="refresh" content="20"></noscript>' if is_live else ""
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_SECURITY_POLICY}"><meta name="color-scheme" content="light dark">'
        f'<meta name="mngr-of" content="{fingerprint}">{refresh_tag}<script src="{up}static/theme.js"></script>'
        f'<link rel="stylesheet" href="{up}static/report.css"><script defer src="{up}static/report.js"></script>'
    )
    toggle = '<button id="theme" type="button" title="light or dark" aria-label="light or dark">◐</button>'
    live_attribute = " data-live" if is_live else ""
    content = f'<div class="report"{live_attribute}>{toggle}{body}</div>'
    return e2e_run_pages.render_page(title[:200], content, up, plays=plays, head=head)


def render_section(title: str, body: str, about: str = "") -> str:
    """Return a section with a heading, or nothing if the body is empty."""
    if not body:
        return ""
    about_html = f'<span class="about">{about}</span>' if about else ""
    section_id = title.lower().replace(" ", "-")
    return f'<section class="part" id="{section_id}"><h2>{title}{about_html}</h2>{body}</section>'
