"""Kind `claude`: Claude Code.

Start with `kind.py`; `transcript.py` reads its conversations, and `screen.json` holds the rules for its screen.
"""
