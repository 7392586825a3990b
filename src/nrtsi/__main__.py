"""`python -m nrtsi` is `nrtsi`."""

from nrtsi.cli.main import main

main()
