"""Write frames, streams, findings, gaps and files as Arrow tables: schemas, rows, and the files that hold them.

Begin with ``schema``: every column is made from the protocol table or from declared Columns. ``frame_table`` makes the
rows of ``frames`` from the columns of a part, without copying, or from records; ``verdicts`` makes
``streams`` and ``findings`` from a ledger, ``other_tables`` makes ``gaps`` and ``files``. ``column_builder`` fills the
columns of a batch; ``folder`` writes batches as Parquet, Arrow or csv, and publishes the folder of an export.

May import ``render`` (for its Columns), ``check``, ``streams`` and what is below these. Imports pyarrow, an extra.
"""
