"""Kind `claude`: Claude Code.

Start with `kind.py`; `transcript.py` reads its conversations, `screen.json` its screen.
"""
