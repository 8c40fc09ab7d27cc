"""How long a task takes, roughly: for the order of tasks and for the time that is left."""


def seconds_of(task):
    """Estimated seconds of a task for ten seeds."""
    return 1.0
