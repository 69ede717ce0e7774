"""Cases that an implementation of one of our protocols must pass, for those who write one."""
