"""`python -m linkdist.serve MODEL`: the command without the rest of the program."""

from linkdist.serve.command import main

main()
