"""`python -m mngr` is `mngr`."""

from mngr.cli.main import main

raise SystemExit(main())
