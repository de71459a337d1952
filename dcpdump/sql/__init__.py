"""Ask captures in SQL: which tables, columns and frames a query needs, and DuckDB, which answers it."""
