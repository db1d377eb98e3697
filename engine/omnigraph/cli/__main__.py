"""``python -m omnigraph.cli``."""

from __future__ import annotations

import sys

from omnigraph.cli import main

sys.exit(main())
