"""``python -m arcbench method=arc harness=needle engine=scripted seed=42``."""

import sys

from arcbench.runner.session import main

if __name__ == "__main__":
    sys.exit(main())
