"""A session of Spark ends without a word of what its parts say to one another."""

import socket
import struct

import pytest

from dcpdump.spark.launch import settings

accumulators = pytest.importorskip("pyspark.accumulators", reason="Spark is not installed: its start is not tested")

pytestmark = pytest.mark.usefixtures("spark")

TOKEN = b"secret"


def connect(first: bytes) -> None:
    """Connect to a server of accumulators as Java does, send this, close, and have the server read it."""
    handler = accumulators.UpdateRequestHandler
    with accumulators.AccumulatorTCPServer(("127.0.0.1", 0), handler, TOKEN.decode()) as server:
        with socket.create_connection(server.server_address) as java:
            java.sendall(first)
        server.handle_request()


def test_java_that_closes_its_connection_is_not_reported(capfd: pytest.CaptureFixture[str]) -> None:
    connect(TOKEN + struct.pack("!i", 0))
    assert capfd.readouterr() == ("", "")


def test_whoever_does_not_know_the_secret_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    connect(b"guess!")
    assert "the provided token to the AccumulatorServer is not correct" in capfd.readouterr().err


def test_what_spark_submit_and_conf_say_comes_before_ours() -> None:
    given, conf = {"spark.ui.enabled": "true"}, {"spark.task.maxFailures": "9"}
    chosen = settings(given, conf, here=False)
    assert "spark.ui.enabled" not in chosen
    assert (chosen["spark.task.maxFailures"], chosen["spark.sql.session.timeZone"]) == ("9", "UTC")
