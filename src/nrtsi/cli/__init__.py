"""The command line: parses options, calls one library function, prints the result."""
