"""Agent kinds, one module a kind: `mngr.agents.NAME` has a `KIND`."""
