"""Kind `gemini`: Gemini CLI.

Start with `kind.py`; `transcript.py` reads its conversations, and `gemini.sh` starts it and handles its hooks.
"""
