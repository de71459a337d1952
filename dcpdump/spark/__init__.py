"""The pipeline: archives of captures become tables, on Spark or, where they are small, without it.

Only launch, rounds, source and watch know Spark; everything else is plain Python over the columnar engine, which
can be tested without a cluster. ``register(spark)`` adds the data source ``dcp`` to a session.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """It makes ``spark.read.format("dcp")`` and ``USING dcp`` read captures in this session."""
    from dcpdump.spark.data_source import Captures, FilteredCaptures

    filtered = spark.conf.get("spark.sql.python.filterPushdown.enabled", "false") == "true"
    spark.dataSource.register(FilteredCaptures if filtered else Captures)
