"""`python -m g2netpl`."""

import sys

from g2netpl.cli import main

sys.exit(main())
