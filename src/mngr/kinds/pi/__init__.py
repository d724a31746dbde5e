"""Kind `pi`.

Start with `kind.py`; `pi.js` is the extension that runs inside pi.
"""
