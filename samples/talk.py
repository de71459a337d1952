"""Run a DCP producer and a client of it, small enough to read: something to watch with ``dcpdump sniff``.

    python samples/talk.py producer [--port 11210] [--vbuckets 8] [--documents 100] [--rate 50] [--password secret]
    python samples/talk.py client   [--port 11210] [--vbuckets 8] [--documents 100] [--follow]

The client sends HELLO, logs in, selects a bucket, opens DCP, requests a stream of each vbucket, acknowledges what it
received and answers NOOPs. The producer makes documents up. Without ``--follow`` the client requests the first
documents only, and both streams and connection end.
"""

import argparse
import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from dcpdump.wire.decode import decode
from dcpdump.wire.encode import Values, encode
from dcpdump.wire.frame import Frame, RawFrame

XATTR, SNAPPY, JSON, COLLECTIONS = 0x06, 0x0A, 0x0B, 0x12
PRODUCER_WITH_XATTRS = 0x05
NEVER = (1 << 64) - 1
AS_JSON = 0x01
BUFFER = 64 * 1024
NOOP_SECONDS = 1
UUID = 0x0000_A1F3_5C2D_9E47


async def frames(reader: asyncio.StreamReader) -> AsyncIterator[Frame]:
    """It reads frame after frame: a header of 24 bytes, of which four say how long the rest is."""
    while True:
        try:
            head = await reader.readexactly(24)
            yield decode(RawFrame.of(head + await reader.readexactly(int.from_bytes(head[8:12], "big"))))
        except (asyncio.IncompleteReadError, ConnectionError):
            return


def value_of(frame: Frame) -> bytes:
    """Return a frame's value."""
    return frame.value or b""


# -- the producer -------------------------------------------------------------------------------------------


@dataclass
class Producer:
    """One connection of a client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    vbuckets: int
    documents: int  #: of a vbucket that are there from the beginning
    rate: float  #: documents a second that are written afterwards
    buffer: int = 0  #: flow control: bytes that may be unacknowledged, 0 for any number
    unacknowledged: int = 0
    room: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    async def serve(self) -> None:
        """It answers the client until it leaves."""
        try:
            async for frame in frames(self.reader):
                answer = getattr(self, f"on_{frame.message.name.lower()}", None)
                if answer is not None and frame.magic.kind == "request":
                    answer(frame)
        finally:
            for task in self.tasks:
                task.cancel()
            self.writer.close()

    def say(self, name: str, values: Values | None = None, **header: object) -> int:
        """Send a frame, and return its size."""
        data = encode(name, values, **header)  # type: ignore[arg-type]
        self.writer.write(data)
        return len(data)

    def answer(self, frame: Frame, values: Values | None = None, status: int = 0, value: bytes = b"") -> None:
        """Send a response to a frame."""
        self.say(frame.message.name, values, response=True, opaque=frame.header.opaque, status=status, value=value)

    def start(self, work: "asyncio.Task[None]") -> None:
        """Keep a reference to a task while it runs."""
        self.tasks.add(work)

    def on_hello(self, frame: Frame) -> None:
        """Grant the requested features that it has."""
        asked = [each.value for each in frame.fields if each.field.name == "features"]
        self.answer(frame, {"features": [each for each in (XATTR, JSON) if each in asked]})

    def on_sasl_auth(self, frame: Frame) -> None:
        """Accept every login."""
        self.answer(frame)

    on_select_bucket = on_dcp_open = on_sasl_auth

    def on_dcp_control(self, frame: Frame) -> None:
        """Switch flow control on by the size of the buffer, and NOOPs if they are wanted."""
        if frame.key == b"connection_buffer_size":
            self.buffer = int(value_of(frame))
        if frame.key == b"enable_noop" and value_of(frame) == b"true":
            self.start(asyncio.create_task(self.keep_alive()))
        self.answer(frame)

    def on_dcp_buffer_acknowledgement(self, frame: Frame) -> None:
        """Free the acknowledged bytes in the buffer."""
        self.unacknowledged -= frame.get("buffer_bytes") or 0
        self.room.set()

    def on_dcp_stream_req(self, frame: Frame) -> None:
        """Grant a stream of a vbucket that exists, and begin it."""
        if frame.header.vbucket_or_status >= self.vbuckets:
            self.answer(frame, status=0x07)  # not my vbucket
            return
        self.answer(frame, {"failover_log": [{"vbucket_uuid": UUID + frame.header.vbucket_or_status, "seqno": 0}]})
        self.start(asyncio.create_task(self.stream(frame)))

    async def keep_alive(self) -> None:
        """It sends a NOOP now and then."""
        opaque = 0x10000000
        while True:
            await asyncio.sleep(NOOP_SECONDS)
            opaque += 1
            self.say("DCP_NOOP", opaque=opaque)
            await self.writer.drain()

    async def stream(self, frame: Frame) -> None:
        """It sends the documents of a vbucket: those that are there, then new ones as they are written."""
        vbucket, opaque = frame.header.vbucket_or_status, frame.header.opaque
        seqno, end = frame.get("start_seqno") or 0, frame.get("end_seqno") or 0
        first = seqno
        while seqno < end:
            last = min(end, self.documents) if seqno < self.documents else seqno + 1
            kind = 2 if last == self.documents else 1  # from disk, or from memory
            marker = {"start_seqno": first, "end_seqno": last, "snapshot_type": kind}
            await self.push("DCP_SNAPSHOT_MARKER", marker, layout="1", vbucket=vbucket, opaque=opaque)
            while seqno < last:
                seqno += 1
                document = {"type": "user", "name": f"user {seqno}", "vbucket": vbucket}
                await self.push(
                    "DCP_MUTATION",
                    {"by_seqno": seqno, "rev_seqno": 1},
                    layout="1",
                    vbucket=vbucket,
                    opaque=opaque,
                    cas=(0x1763 << 48) + seqno,
                    key=b"user::%d" % seqno,
                    value=json.dumps(document).encode(),
                    datatype=AS_JSON,
                )
            first = seqno + 1
            if seqno < end:
                await asyncio.sleep(self.vbuckets / self.rate)
        await self.push("DCP_STREAM_END", {"status": 0}, vbucket=vbucket, opaque=opaque)

    async def push(self, name: str, values: Values, **header: object) -> None:
        """It sends a message of a stream when there is room for it."""
        while self.buffer and self.unacknowledged >= self.buffer:
            self.room.clear()
            await self.room.wait()
        self.unacknowledged += self.say(name, values, **header)
        await self.writer.drain()


async def produce(options: argparse.Namespace) -> None:
    """It listens for clients."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Producer(reader, writer, options.vbuckets, options.documents, options.rate).serve()

    server = await asyncio.start_server(serve, options.host, options.port)
    print(f"listening on {options.host}:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


# -- the client ---------------------------------------------------------------------------------------------


async def consume(options: argparse.Namespace) -> None:
    """It takes streams of all vbuckets, and says what came."""
    reader, writer = await asyncio.open_connection(options.host, options.port)
    incoming = frames(reader)

    async def ask(name: str, values: Values | None = None, **header: object) -> Frame:
        writer.write(encode(name, values, **header))  # type: ignore[arg-type]
        return await anext(incoming)

    await ask("HELLO", {"features": [XATTR, JSON]}, key=b"samples/talk.py", opaque=1)
    login = b"\0Administrator\0" + options.password.encode()
    await ask("SASL_AUTH", key=b"PLAIN", value=login, opaque=2)
    await ask("SELECT_BUCKET", key=b"travel-sample", opaque=3)
    await ask("DCP_OPEN", {"flags": PRODUCER_WITH_XATTRS}, key=b"samples:talk", opaque=4)
    for opaque, (key, text) in enumerate(
        {b"connection_buffer_size": b"%d" % BUFFER, b"enable_noop": b"true"}.items(), 5
    ):
        await ask("DCP_CONTROL", key=key, value=text, opaque=opaque)
    end = NEVER if options.follow else options.documents
    for vbucket in range(options.vbuckets):
        writer.write(encode("DCP_STREAM_REQ", {"end_seqno": end}, vbucket=vbucket, opaque=0x1000 + vbucket))
    documents = unacknowledged = 0
    left = options.vbuckets
    async for frame in incoming:
        if frame.message.name == "DCP_NOOP":
            writer.write(encode("DCP_NOOP", response=True, opaque=frame.header.opaque))
        elif frame.magic.kind == "request":
            documents += frame.message.name == "DCP_MUTATION"
            left -= frame.message.name == "DCP_STREAM_END"
            unacknowledged += len(frame.raw.data)
        if unacknowledged >= BUFFER // 2 or not left:
            writer.write(encode("DCP_BUFFER_ACKNOWLEDGEMENT", {"buffer_bytes": unacknowledged}, opaque=9))
            unacknowledged = 0
        if not left:
            break
    print(f"{documents} documents of {options.vbuckets} vbuckets", flush=True)
    writer.close()
    await writer.wait_closed()


def main() -> None:
    """Run the producer or the client."""
    options = argparse.ArgumentParser(prog="python samples/talk.py", description=__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("role", choices=["producer", "client"])
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=11210)
    options.add_argument("--vbuckets", type=int, default=8)
    options.add_argument("--documents", type=int, default=100, help="of each vbucket")
    options.add_argument("--rate", type=float, default=50, help="of a producer: documents a second, then")
    options.add_argument("--password", default="secret", help="of a client")
    options.add_argument("--follow", action="store_true", help="of a client: never stop")
    given = options.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(produce(given) if given.role == "producer" else consume(given))


if __name__ == "__main__":
    main()
