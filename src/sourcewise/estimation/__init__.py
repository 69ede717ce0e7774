"""Evidence in, estimates out: one problem or a batch of thousands, the same code."""
