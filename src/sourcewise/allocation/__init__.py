"""The best division of money over sources, and whole rows from it."""
