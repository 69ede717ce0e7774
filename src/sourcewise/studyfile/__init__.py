"""Study files: a study in TOML, with what it costs, how to spend, and where its data are."""
