"""Arrays in, arrays out: factorisations and least squares, for one problem or a batch along the last axis."""
