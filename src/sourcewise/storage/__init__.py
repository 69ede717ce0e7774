"""Where campaigns are kept. `base` says what a store must do, `sql` does it on SQLite and PostgreSQL."""
