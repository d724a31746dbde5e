"""Hosts and what mngr keeps on them: the `Host` protocol, remote hosts over a pipe, git, tmux and the record store.

Start with `protocol.py`. `scripts/` holds the shell programs that run on a host.
"""
