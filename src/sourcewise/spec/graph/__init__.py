"""Causal graphs: their data model, the texts they are written in, and the moments that they imply."""
