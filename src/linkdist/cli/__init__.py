"""The command line: commands parse, make one call, and print."""
