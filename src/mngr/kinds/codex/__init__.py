"""Kind `codex`: Codex.

Start with `kind.py`; `transcript.py` reads its conversations, `codex.sh` runs beside it on the host.
"""
