"""Turn archives of captures into tables, on Spark or, where they are small, without it.

Only ``launch``, ``task_rounds``, ``data_source`` and ``watch`` know Spark; everything else is plain Python over
``dcpdump.batch`` and can be tested without a cluster. ``register(spark)`` adds the data source ``dcp`` to a session.
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
