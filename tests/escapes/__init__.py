"""The escape pack: attempts of hostile agents, branches and repositories to leave a mark outside. Start with README.md."""
