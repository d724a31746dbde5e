"""Makes `python -m mngr` the same as `mngr`."""

from mngr.cli.main import main

raise SystemExit(main())
