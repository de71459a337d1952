"""Query captures in SQL: find the tables, columns and frames that a query needs, and run it in DuckDB."""
