"""Groups of commands: `nrtsi data`, `nrtsi bench`, `nrtsi plot`."""
