"""Steps from one version of the tables to the next, run by Alembic inside one transaction (`schema`)."""
