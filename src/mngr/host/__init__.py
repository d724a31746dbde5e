"""The `Host` protocol, remote hosts that are reached through a pipe, git, tmux and the store of agent records.

Start with `protocol.py`. `scripts/` holds the shell programs that run on a host.
"""
