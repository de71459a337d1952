"""Turn archives of captures into tables, on Spark or on this machine: index, then decode.

Begin with ``job``, which runs both steps. ``indexing`` and ``decoding`` are two pure functions of a ``chain``, which
``local`` runs in processes and ``cluster`` on Spark; ``output`` publishes the files; ``watch`` repeats all for new
captures; ``data_source`` offers ``format("dcp")``. May import ``arrow`` and what is below it.

- A *chain* is captures that are one timeline: those of a folder, a file, or all. Connections and frames are numbered
  in it as ``export`` numbers them.
- An *index task* reads a chain once, as fast as a filtered ``read`` (with ledger and rules if their tables are
  requested), and writes the rows of all tables but ``frames``. About every 64 MB it makes a *checkpoint*.
- A checkpoint begins a *span*, a row of the table ``index``: plain columns (frames, packets, times, captures), and the
  state of the dissection as opaque bytes. A state has at most 32 MB: while it is larger, the checkpoint is postponed.
  States are in Parquet files below the folder of the run, each in its own row group, and go from task to task; the
  driver sees only the plain columns. They have no secrets of TLS, but bytes of frames: only ``--keep-index`` publishes
  them.
- A *decode task* continues from a span's checkpoint to the next, and yields exactly its frames. It fails if their
  number differs from that in the index. Where memory was freed within a span, it is joined with all spans before.
- *Tasks write* Parquet by pyarrow, each attempt to its own files; the files of the successful attempt are then moved
  into place. (Through the JVM the same 1.5 GB took four times as long, for its columns.)
- ``--watch`` and ``readStream`` write down the captures of a batch before it, and the checkpoints of its chains after
  it. A repeated batch begins at the same checkpoints, and its rows replace those of the first attempt.
- Secrets of TLS reach tasks as a file that Spark distributes: they are in no plan, log, table or state.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Make ``spark.read.format("dcp")`` and ``USING dcp`` read captures in this session."""
    from dcpdump.spark.data_source import Captures

    spark.dataSource.register(Captures)
