"""Kind `opencode`.

Start with `kind.py`; `opencode.js` is the plugin that runs inside opencode.
"""
