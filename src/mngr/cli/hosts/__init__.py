"""Commands for hosts: `pipe`, `ssh-config`, `gc`, and the helper behind `git fetch mngr::AGENT`.

Each module holds `COMMAND`, a declaration, and `run(cli, args)`.
"""
