"""Kind `gemini`: Gemini CLI.

Start with `kind.py`; `transcript.py` reads its conversations, `gemini.sh` runs beside it on the host.
"""
