"""`python -m clusterfirst` is the command line."""

import sys

from clusterfirst.cli import main

sys.exit(main())
