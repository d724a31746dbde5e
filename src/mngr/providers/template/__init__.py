"""Provider kind `template`: any engine with a command line, described in the settings.

Start with `provider.py`.
"""
