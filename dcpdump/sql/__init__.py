"""Query captures in SQL: find the tables, columns and frames that a query needs, and run it in DuckDB.

Begin with ``database``: an engine for one query, to which tables are offered. ``query`` finds, in the tree that DuckDB
parsed, which tables and columns a query uses; ``predicates`` turns its conditions into hints, so that frames that
cannot match are not decoded; ``results`` formats the result, and describes the tables.

May import ``arrow`` and what is below it. Imports DuckDB, an extra. ``cli.tables`` reads the captures.
"""
