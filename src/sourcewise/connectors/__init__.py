"""Tables that answer orders by themselves: files, frames, databases and clusters, behind one small interface."""
