"""Turn archives of captures into tables, on Spark or on this machine: index, then decode.

- A *chain* is captures that are one timeline: those of a folder, a file, or all. Connections and frames are numbered
  in it as ``export`` numbers them.
- The *index task* reads a chain once, as fast as a filtered reading (with ledger and rules where their tables are
  wanted), and writes the rows of all tables but ``frames``. About every 64 MB it makes a *checkpoint*.
- A checkpoint begins a *span*, a row of the table ``index``: plain columns (frames, packets, times, captures) and the
  state of the dissection there as opaque bytes, 32 MB at most: where more waits, the checkpoint comes later. States
  are in Parquet files below the folder of the run, each a row group of its own, and go from task to task; the driver
  only sees plain columns. They hold no secrets of TLS, but bytes of frames: ``--keep-index`` alone publishes them.
- The *decode task* continues from a span's checkpoint to the next, which yields its frames, exactly. It fails if that
  are not as many as the index says. Where memory was freed within a span, what came before it is one span with it.
- *Tasks write* Parquet by pyarrow, each attempt to files of its own; results come back from the attempt that counts,
  and its files are then moved into place. (Through the JVM the same 1.5 GB took four times as long, for its columns.)
- ``--watch`` and ``readStream`` write down which captures a batch has before, and where it left each chain after it.
  A batch that is done again begins at the same places, and its rows take the place of the first.
- Secrets of TLS reach tasks as a file that Spark brings to each machine: they are in no plan, log, table or state.

``indexing`` and ``decoding`` are two pure functions; ``local`` runs tasks in processes, ``cluster`` on Spark.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Make ``spark.read.format("dcp")`` and ``USING dcp`` read captures in this session."""
    from dcpdump.spark.data_source import Captures, FilteredCaptures

    filtered = spark.conf.get("spark.sql.python.filterPushdown.enabled", "false") == "true"
    spark.dataSource.register(FilteredCaptures if filtered else Captures)
