"""What is asked for wrongly is refused: one error, hints and an exit code, nothing on standard output and no file.

The transcript has commands, and what each of them answers: the exit code and the error, or "usage", which is 2 and
has the help of the command for a hint; then its hints.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.console import Printed, refusal, run

REFUSED = """
# commands, pages and options
$ raed x.pcap
2: no such command or file: 'raed'
hint: did you mean 'read'?
$ none.pcap
2: no such command or file: 'none.pcap'
hint: dcpdump --help lists the commands
$ help filter
2: there is no page 'filter'
hint: did you mean 'filters'?
$ spec mutatoin
2: there is no message 'mutatoin'
hint: did you mean mutation (0x57)?
$ spec nosuch
2: there is no message 'nosuch'
hint: dcpdump spec lists the messages
$ spec 0x99
2: no message has the opcode 0x99
hint: dcpdump spec --all lists the messages
$ read samples/replica.pcap --vbuket 3
usage: No such option '--vbuket'. Did you mean '--vbucket'?
$ flow --vbucket 3 samples/stopped.pcap
usage: No such option '--vbucket'.
$ key x samples/replica.pcap --show-secrets
$ check samples/replica.pcap --show-secrets
usage: No such option '--show-secrets'.
$ stats samples/replica.pcap --value-bytes 3
$ diff samples/replica.pcap --value-bytes 3
usage: No such option '--value-bytes'.
$ read -f json samples/stopped.pcap
usage: Invalid value for '-f' / '--format': 'json' is not one of table, grid, line, ndjson, csv; did you mean ndjson?
$ read -f xml samples/stopped.pcap
usage: Invalid value for '-f' / '--format': 'xml' is not one of table, grid, line, ndjson, csv
$ read --opcode
usage: Option '--opcode' requires an argument.

# filters
$ read samples/replica.pcap --opcode mutatoin
2: unknown opcode 'mutatoin' for --opcode
hint: did you mean mutation (0x57)?
$ read samples/replica.pcap --opcode 0x157
2: --opcode: 0x157 is more than 0xff
$ read samples/replica.pcap --opcode mutation,
2: --opcode: an empty value in 'mutation,'
$ read samples/replica.pcap --status rolback
2: unknown status 'rolback' for --status
hint: did you mean Rollback?
$ read samples/replica.pcap --vbucket 9-3
2: --vbucket: the range '9-3' runs backwards
hint: --vbucket 3-9
$ streams samples/replica.pcap --vbucket seven
2: --vbucket: 'seven' is not a number or range
hint: --vbucket 7, --vbucket 0-63,512 or --vbucket 100-
$ read samples/replica.pcap --vbucket 70000
$ read samples/replica.pcap --vbucket 70000-
2: --vbucket: 70000 is more than the largest, 65535
$ read samples/replica.pcap --frame first
2: --frame: 'first' is not a number or range
hint: --frame 7, --frame 0-63,512 or --frame 100-
$ read samples/replica.pcap -c 0
usage: Invalid value for '-c' / '--count': 0 is not in the range x>=1.
$ read samples/replica.pcap --latency 5ms
2: --latency: '5ms' is not a bound of a time, such as >5ms
hint: --latency '>5ms', with >, >=, < or <=, and us, ms or s; in quotes, else the shell writes a file
$ read samples/replica.pcap --since yesterday
2: --since: 'yesterday' is not a time
hint: --since 2026-11-20T10:00:00Z, --since 10:00:00.250 as tables print it, or --since +30s
$ read samples/stopped.pcap --since +60s --until +10s
$ streams samples/stopped.pcap --since +60s --until +10s
$ stats samples/stopped.pcap --since +60s --until +10s
2: --since +60s is later than --until +10s: nothing is between them
$ check samples/stopped.pcap --since 2025-11-20T12:00:00Z --until 2025-11-20T12:59:59+01:00
2: --since 2025-11-20T12:00:00Z is later than --until 2025-11-20T12:59:59+01:00: nothing is between them
$ read samples/replica.pcap --key '/[/'
2: --key: '/[/' is not a regular expression: unterminated character set at position 0
$ key '/(/' samples/durable.pcap
2: PATTERN: '/(/' is not a regular expression: missing ), unterminated subpattern at position 0
$ read samples/replica.pcap --kind reply
2: --kind: 'reply' is not a kind
hint: --kind request, or --kind response
$ read samples/replica.pcap --host 10.0.0.9:50312
2: --host: '10.0.0.9:50312' is not an IP address
hint: --host 10.0.0.9 --port 50312
$ read samples/replica.pcap --host nosuch.example
2: --host: 'nosuch.example' is not an IP address
hint: --host 10.0.0.2, or --host 10.0.0.0/24
$ read samples/replica.pcap --collection 0x9z
2: --collection: '0x9z' is neither an id nor the name of a collection
hint: --collection 0x8, --collection 8-15 or --collection shop.carts
$ pipeline samples/replica.pcap -o out --keep-index --redact
usage: --keep-index keeps bytes of frames as they are: not with --redact
$ streams samples/stopped.pcap --cause abandonned
usage: unknown cause 'abandonned' for --cause (did you mean abandoned?)
$ check samples/order.pcap --select DCP999
usage: unknown rule 'DCP999' for --select (did you mean DCP309, DCP239, DCP229?)
$ check samples/order.pcap --select ''
$ check samples/order.pcap --select ' , '
usage: --select names no rule (dcpdump check --list has them)
$ check samples/order.pcap --ignore ''
usage: --ignore names no rule (dcpdump check --list has them)
$ check samples/order.pcap --explain ' , '
usage: --explain names no rule (dcpdump check --list has them)

# what is shown, and with how much
$ read samples/stopped.pcap --context 1 -f csv
usage: csv cannot mark context (-f ndjson, line, table or grid)
$ read samples/replica.pcap --value-bytes ²
usage: Invalid value for '--value-bytes': '²' is neither a number of bytes nor 'all'
$ read samples/stopped.pcap -f csv -t r
usage: -t is for people: csv always has the time in UTC
$ check samples/stopped.pcap -f sarif -t r
usage: -t is for people: sarif always has the time in UTC
$ read samples/stopped.pcap -f ndjson -t d
$ streams samples/stopped.pcap -f ndjson -t r
$ top samples/stopped.pcap -f ndjson -t r
$ stats samples/stopped.pcap -f ndjson -t r
usage: -t is for people: ndjson always has the time in UTC
$ conns samples/stopped.pcap --sort bites
usage: unknown column 'bites' for --sort (did you mean bytes? there are conn, client, name, bucket, streams, \
frames, bytes, lost, end)
$ streams samples/stopped.pcap --sort bites
usage: unknown column 'bites' for --sort (did you mean bytes? there are conn, client, vb, sid, asked, last-seqno, \
lag, snapshots, mutations, deletions, expirations, prepares, commits, aborts, system-events, bytes, lost, verdict)
$ flow samples/stopped.pcap --sort bites
usage: unknown column 'bites' for --sort (there are conn, client, buffer, sent, acked, acks, outstanding, peak, blocked)
$ rollbacks samples/stopped.pcap --sort bites
usage: unknown column 'bites' for --sort (there are conn, client, vb, time, start, to, count)
$ stats samples/stopped.pcap --sort bites
usage: unknown column 'bites' for --sort (did you mean bytes? there are name, frames, bytes, \
frames/s, bytes/s, bucket, client)
$ read samples/replica.pcap --memory much
usage: Invalid value for '--memory': 'much' is not a size, such as 256M
$ read samples/replica.pcap --memory 0
usage: Invalid value for '--memory': '0' is too little: 64k is the least
$ read samples/replica.pcap -j 0
$ report samples/replica.pcap -o out -j 0
usage: Invalid value for '-j' / '--jobs': 0 is not in the range x>=1.

# inputs
$ check
$ export -o out
$ pipeline -o out
usage: Missing argument 'CAPTURE…'.
$ read samples/replica.pcapp
3: there is no such file (samples/replica.pcapp)
hint: did you mean samples/replica.pcap?
$ check README.md
$ export README.md -o out
3: this is not a capture; it looks like text (README.md)
$ export none.pcap -o out
$ pipeline none.pcap -o out
$ read none.pcap -o out
3: there is no such file (none.pcap)
$ explain samples/stopped.pcap
2: 'samples/stopped.pcap' is a file, not bytes
hint: dcpdump read samples/stopped.pcap, if it is a capture
hint: dcpdump explain -i samples/stopped.pcap, if it holds bytes
$ explain -i /nowhere/paste.txt
3: cannot read: no such file or directory (/nowhere/paste.txt)
$ explain -i README.md 8057
$ explain 8057 -i README.md
$ explain -i README.md -
usage: the bytes come from the arguments or from -i FILE, not from both
$ explain zz -o out
2: no bytes found in this text (it begins 'zz')
hint: dcpdump explain '80 57 00 05 1f 00 02 10 …', or paste an xxd or hexdump -C dump
$ top -i lo samples/slow-consumer.pcap
usage: either an interface (-i) or captures, not both
$ read s3://bucket/a.pcap
3: there is no such file (s3://bucket/a.pcap)
hint: dcpdump pipeline reads object storage; the other commands read files: fetch it before
$ read file:///x/a.pcap
3: there is no such file (file:///x/a.pcap)
hint: name it as /x/a.pcap

# outputs
$ read samples/replica.pcap -o ''
$ streams samples/replica.pcap -o ''
$ report samples/replica.pcap -o ''
$ sql 'from frames' samples/replica.pcap -o ''
$ redact samples/replica.pcap -w ''
$ carve samples/replica.pcap -w ''
$ export samples/replica.pcap -o ''
$ pipeline samples/replica.pcap -o ''
5: the name of the output is empty
$ export samples/replica.pcap -o -
$ pipeline --engine local samples/replica.pcap -o -
5: tables are written to a folder, not to standard output (-o -)
hint: name one: -o tables
$ export samples/replica.pcap
$ pipeline samples/replica.pcap
usage: Missing option '-o': the folder to write to.
$ read samples/replica.pcap -o kept
$ read samples/replica.pcap -o kept --force
5: the output is a folder (kept)
$ read samples/replica.pcap -o kept/notes.txt
5: the output exists already (kept/notes.txt)
hint: --force replaces it
$ export samples/replica.pcap -o kept --force
5: the folder holds what is not a table: notes.txt (kept)
hint: name a folder for the tables alone
$ pipeline samples/replica.pcap -q -o kept/notes.txt
5: cannot write: file exists (kept/notes.txt)
hint: name a folder, or one that is not there yet
$ read samples/replica.pcap -o /nowhere/at/all.txt
5: cannot write: no such file or directory (/nowhere/at/all.txt)
hint: mkdir -p /nowhere/at
$ read samples/replica.pcap -o s3://bucket/x
5: cannot write: no such file or directory (s3://bucket/x)
hint: dcpdump pipeline writes to object storage, the other commands to files
$ export samples/replica.pcap -o out --tables stream
usage: Invalid value for '--tables': 'stream' is not a table; there are frames, gaps, streams, findings, files
$ pipeline samples/replica.pcap -o out --split 4095
usage: Invalid value for '--split': '4095' is too little: 4k is the least
$ pipeline samples/replica.pcap -o out --conf x
usage: Invalid value for '--conf': 'x' is not a setting, such as spark.executor.memory=4g
$ pipeline samples/replica.pcap -o out --watch --tables streams
usage: --watch writes frames, gaps, files alone: the others look at all of an input
$ pipeline samples/replica.pcap -o out --capture-id a/b
usage: Invalid value for '--capture-id': 'a/b' holds more than letters, digits, '.', '_' and '-'

# addresses
$ relay --to ''
usage: Invalid value for '--to': '' is not an address, such as 127.0.0.1:12210
$ relay --to host:port
usage: Invalid value for '--to': 'host:port' is not an address, such as 127.0.0.1:12210
$ relay --to host:70000
usage: Invalid value for '--to': 'host:70000' is not an address, such as 127.0.0.1:12210
$ relay --to a..b:11210
6: no such host: no host can have this name (a..b:11210)
"""


def refusals() -> Iterator[tuple[str, Printed]]:
    """Yield each command of the transcript with what it answers."""
    commands: list[str] = []
    answer: list[str] = []
    for line in [*(line for line in REFUSED.splitlines() if line and line[0] != "#"), "$ "]:
        if not line.startswith("$ "):
            answer.append(line)
            continue
        if answer:
            kind, _, error = answer[0].partition(": ")
            hints = [each.partition("hint: ")[2] for each in answer[1:]]
            for command in commands:
                usage = [f"dcpdump {command.split()[0]} --help"] * (kind == "usage")
                yield command, refusal(2 if usage else int(kind), error, *hints, *usage)
            commands, answer = [], []
        commands.append(line[2:])


WANTED = dict(refusals())


@pytest.mark.parametrize("command", WANTED)
def test_what_is_asked_for_wrongly_is_refused(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("samples", "README.md"):
        (tmp_path / name).symlink_to(Path(name).resolve())
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/notes.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    assert run(f"dcpdump {command}") == WANTED[command]
    assert sorted(os.listdir()) == ["README.md", "kept", "samples"]
    assert (os.listdir("kept"), Path("kept/notes.txt").read_text()) == (["notes.txt"], "mine")
