"""Measures the speed: `nrtsi bench run speed`, with the same options, such as `--quick`."""

import sys

from nrtsi.cli.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["bench", "run", "speed"]
    main()
