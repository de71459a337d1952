"""Answer three questions about captures in SQL: which streams rolled back and why, when did lag start, and which
connection was blocked by flow control, and for how long.

    python samples/questions.py samples/client-rollback.pcap samples/slow-consumer.pcap

It is written as one would in a notebook: captures become tables, tables become views, and then there is only SQL.
``TABLES=DIR`` keeps the tables.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dcpdump.cli.main import outcome
from dcpdump.spark.launch import spark_context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROLLED_BACK = """
    SELECT name, vbucket, asked.start_seqno, asked.rollback_seqno, count(*) AS times, min(asked.time) AS first_asked,
           asked.clause, asked.why
    FROM (SELECT name, vbucket, explode(requests) AS asked FROM streams)
    WHERE asked.rollback_seqno IS NOT NULL
    GROUP BY ALL
    ORDER BY name, vbucket
"""

#: The counters of flow control: what was sent and counts, less what was acknowledged, frame by frame.
BOOKS = """
    WITH sizes AS (
        SELECT capture_id, connection, max(cast(cast(value AS string) AS bigint)) AS size
        FROM frames
        WHERE name = 'DCP_CONTROL' AND kind = 'request' AND cast(key AS string) = 'connection_buffer_size'
        GROUP BY capture_id, connection
    ), steps AS (
        SELECT capture_id, connection, time, packet, offset,
               CASE WHEN name = 'DCP_BUFFER_ACKNOWLEDGEMENT' THEN -buffer_bytes ELSE length END AS bytes
        FROM frames
        WHERE kind = 'request' AND (name = 'DCP_BUFFER_ACKNOWLEDGEMENT' OR opcode BETWEEN 85 AND 95
                                    AND opcode NOT IN (92, 94) OR opcode BETWEEN 96 AND 103 AND opcode <> 97)
    )
    SELECT *, sum(bytes) OVER (PARTITION BY capture_id, connection ORDER BY time, packet, offset
                               ROWS UNBOUNDED PRECEDING) AS outstanding,
           lead(time) OVER (PARTITION BY capture_id, connection ORDER BY time, packet, offset) AS until
    FROM steps JOIN sizes USING (capture_id, connection)
"""

LAG = """
    SELECT capture_id, connection, min(time) AS since, max(outstanding) AS most_bytes
    FROM books JOIN (
        SELECT capture_id, connection, max(CASE WHEN outstanding <= 0 THEN time END) AS caught_up
        FROM books GROUP BY capture_id, connection
    ) USING (capture_id, connection)
    WHERE outstanding > 0 AND time > coalesce(caught_up, timestamp '1970-01-01')
    GROUP BY capture_id, connection
"""

BLOCKED = """
    SELECT capture_id, connection, name, min(time) AS since, max(outstanding) AS most_bytes, first(size) AS of_bytes,
           round(sum(cast(coalesce(until, last) AS double) - cast(time AS double)), 1) AS seconds
    FROM books
    JOIN (SELECT capture_id, max(last) AS last FROM files GROUP BY capture_id) USING (capture_id)
    LEFT JOIN (SELECT DISTINCT capture_id, connection, name FROM streams) USING (capture_id, connection)
    WHERE outstanding >= size
    GROUP BY capture_id, connection, name
    ORDER BY seconds DESC
"""

QUESTIONS = {
    "Which streams rolled back, and why?": ROLLED_BACK,
    "Since when was a consumer behind, and never caught up?": LAG,
    "Which connection was blocked by flow control, and for how long?": BLOCKED,
}


def tables(captures: Sequence[str], folder: str) -> None:
    """Make tables of captures, each with a name of its own."""
    for number, capture in enumerate(captures):
        code = outcome(["pipeline", capture, "-o", folder, "-q", "--capture-id", f"capture-{number}"])
        if code not in (0, 4):  # 4: damaged, and everything else of it is there
            raise SystemExit(code)


def ask(spark: "SparkSession", folder: str) -> None:
    """Answer the questions."""
    for name in ("frames", "streams", "files"):
        spark.read.parquet(f"{folder}/{name}").createOrReplaceTempView(name)
    spark.sql(BOOKS).createOrReplaceTempView("books")
    for question, query in QUESTIONS.items():
        print(question)
        spark.sql(query).show(truncate=False)


def main(captures: Sequence[str]) -> None:
    """Make the tables, and answer the questions."""
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory() as room, spark_context(conf={"spark.sql.session.timeZone": "UTC"}) as context:
        folder = os.environ.get("TABLES", room)
        tables(captures, folder)
        ask(SparkSession(context), folder)


if __name__ == "__main__":
    main(sys.argv[1:])
