"""Many processes and many machines, by Ray; a single machine needs none of it."""
