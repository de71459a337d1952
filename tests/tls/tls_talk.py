"""Say in TLS over the loopback interface what the client and the server of a sample say, as often as lines come in.

    python -m tests.tls.tls_talk KEYLOG

The secrets are appended to the key log before anything is said. Each line of input is a connection, and each is
answered by a line once both ends have received all.
"""

import datetime
import socket
import ssl
import sys
import tempfile
import threading
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dcpdump.capture.file import Capture
from dcpdump.net.connections import Connections
from dcpdump.net.event import Bytes

SAMPLE = Path(__file__).parents[2] / "samples" / "replica.pcap"


def certificate() -> Path:
    """Make a certificate of its own, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cb.example")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = Path(tempfile.mkdtemp()) / "cert.pem"
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
    return path


def script() -> list[tuple[int, bytes]]:
    """Return what the sample's sides say, in turn."""
    connections, said = Connections(), list[tuple[int, bytes]]()
    for packet in Capture(str(SAMPLE)):
        said += [(way, each.data) for _, way, each in connections.feed(packet) if isinstance(each, Bytes)]
    return said


def converse(end: ssl.SSLSocket, direction: int) -> None:
    """Say and hear all as one of the sides."""
    with end:
        for way, text in script():
            if way == direction:
                end.sendall(text)
            else:
                got = b""
                while len(got) < len(text):
                    got += end.recv(len(text) - len(got))


def main(keylog: str) -> None:
    """Make a connection for each line."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(certificate())
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.keylog_filename = keylog
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print("ready", flush=True)
        for _ in sys.stdin:
            near = socket.create_connection(listener.getsockname())
            far = listener.accept()[0]

            def serve(far: socket.socket = far) -> None:
                converse(server.wrap_socket(far, server_side=True), 1)

            thread = threading.Thread(target=serve)
            thread.start()
            converse(client.wrap_socket(near), 0)
            thread.join()
            print("said", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
