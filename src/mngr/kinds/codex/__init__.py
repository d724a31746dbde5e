"""Kind `codex`: Codex.

Start with `kind.py`; `transcript.py` reads its conversations, and `codex.sh` starts it on the host.
"""
