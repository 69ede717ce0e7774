"""Whether a target can be estimated at all: by which sources, by what strategy, and what it would take."""
