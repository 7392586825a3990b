"""`python -m nrtsi` is `nrtsi`."""

from nrtsi.cli import main

main()
