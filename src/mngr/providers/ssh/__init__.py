"""Provider `ssh`: machines reached by the system's own ssh.

Start with `provider.py`.
"""
