"""SelfLinkDist beside what a practitioner would use instead; `protocol` says how it is measured."""
