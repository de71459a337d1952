"""The same examples in every run: what Hypothesis draws must not decide whether a change may land.

``pytest --hypothesis-profile=default`` draws new ones.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One session of Spark, with two cores, for all tests that want one."""
    pytest.importorskip("pyspark", reason="Spark is not installed: nothing on it is tested")
    from dcpdump.spark.launch import session

    with session("local[2,3]", {"spark.sql.shuffle.partitions": "2"}) as started:
        yield started
