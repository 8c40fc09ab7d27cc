"""SelfLinkDist: a panel of teachers, and one network that learns what they agree on."""
