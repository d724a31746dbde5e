"""Provider kind `template`: an engine whose commands the user describes in the settings.

Start with `provider.py`.
"""
