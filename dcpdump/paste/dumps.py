"""Read dumps: pages of lines that begin with an offset. xxd, hexdump -C, od, Wireshark, tcpdump, debuggers, Netty …

It finds the dumps of a page and separates what is not contiguous. A dump with lines missing, and a page with bytes
outside its dumps, is refused or left to other forms: nothing is dropped silently.
"""

import re
from typing import NamedTuple

from dcpdump.errors import PasteError
from dcpdump.lazy_pattern import lazy_pattern
from dcpdump.paste.packets import with_reassembled
from dcpdump.paste.pasted import CUT, LIMIT, Pasted
from dcpdump.paste.rows import KINDS, RULER, Row, cells, row
from dcpdump.paste.runs import Run, read_run
from dcpdump.plural import counted

_STRAY = lazy_pattern(
    r"(?<![0-9A-Za-z])(?:0x)?[0-9a-fA-F]{2}(?:[ ,\t]{0,2}(?:0x)?[0-9a-fA-F]{2}){7}"
    r"|(?<![0-9A-Za-z])[0-9]{1,3}(?:[ \t]+-?[0-9]{1,3}){7}(?![0-9A-Za-z])"
)
#: A field that a dissector prints above its dump: its value is among the dump's bytes.
_FIELD = lazy_pattern(r"^[>|]*\s{4,}[A-Z][\w /()-]{0,60}: (?:0x)?[0-9a-fA-F]+(?:…|\s*[\[(].*)?\s*$")
_DERIVED = lazy_pattern(r"^(?:Reassembled|Decompressed|Uncompressed|Decrypted|De-chunked|Unencoded)\b", re.I)
_CUT_OFF = lazy_pattern(r"\n[ \t]*(?:\.{3,}|…)[ \t]*\s*$")


class Found(NamedTuple):
    """The dumps of a page: each run of bytes, with the heading line that stood above it."""

    runs: tuple[tuple[str, Run], ...]
    derived: tuple[tuple[str, Run], ...] = ()  #: that were made of the bytes of others


def find_dumps(text: str) -> Found | None:
    """Return every dump in ``text``, or None when there is none, or bytes stand outside of them."""
    blocks: list[tuple[str, list[Row]]] = []
    last_noise = ""
    fresh = True
    stray = False
    for number, line in enumerate(text.split("\n"), 1):
        found = row(number, line)
        if found is None:
            if line.strip():
                stray = stray or _is_stray(line)
                last_noise = line.strip()
                fresh = True
            continue
        if found.rest is None:
            if not blocks:
                continue
            blocks[-1][1].append(found)
            continue
        rows = None if fresh else _above(blocks, found)
        if rows is None:
            rows = []
            blocks.append((last_noise, rows))
            last_noise = ""
        rows.append(found)
        fresh = False
    runs: list[tuple[str, Run]] = []
    if stray or (blocks and not _may_be_dump(blocks[0][1], runs) and _holds_bytes(blocks[0][1])):
        return None
    total, last = 0, list[Row]()
    for title, rows in blocks:
        run = read_run(rows) if _may_be_dump(rows, runs) else None
        if run is None and last:
            _refuse_later_end(rows[0], last[0], runs[-1][1])
        if run is not None:
            if run.start and runs and not runs[-1][1].start and not _continues(runs, run):
                raise PasteError(
                    f"the dump goes from byte {len(runs[-1][1].data)} to byte {run.start}: lines are left out",
                    f"line {run.line}",
                    "paste the dump whole",
                )
            _append(runs, title, run)
            last = rows
            total += len(run.data)
            if total > LIMIT:
                return None
        elif len(rows) > 2 and run is None and _looks_broken(rows):
            raise PasteError(
                "the offsets of this dump do not follow one another: lines are missing or changed",
                f"line {rows[0].line} and below",
                "paste the dump whole",
            )
        elif _holds_bytes(rows):
            stray = True
    if not runs or stray:
        return None
    kept = tuple(r for r in runs if not _DERIVED.match(r[0]))
    return Found(kept, tuple(r for r in runs if _DERIVED.match(r[0]))) if kept else Found(tuple(runs))


def _refuse_later_end(row: Row, first: Row, run: Run) -> None:
    """Raise PasteError for a lone offset, as hexdump and od end their dumps with, that is not where the run ends."""
    alike = row.indent == first.indent and len(row.offset) == len(first.offset) >= 7
    if row.rest is None or row.rest.strip() or not alike:
        return
    digits = "0123456789abcdef"
    bases = [base for base in (16, 10, 8) if set(row.offset.lower()) <= set(digits[:base])]
    end = run.start + len(run.data)
    if end not in [int(row.offset, base) for base in bases]:
        raise PasteError(
            f"the dump ends at offset {row.offset}, but byte {end} is the next: lines are left out",
            f"line {row.line}",
            "paste the dump whole",
        )


def _is_stray(line: str) -> bool:
    """Return whether a line that is no row of a dump holds bytes of its own."""
    return _STRAY.search(line) is not None and not RULER.match(line) and not _FIELD.match(line)


def _above(blocks: list[tuple[str, list[Row]]], found: Row) -> list[Row] | None:
    """Return the rows that a row continues: the last ones in its column, if their offsets are lower; or None.

    Two directions of a conversation take turns, and the second is indented.
    """
    for _, rows in reversed(blocks[-2:]):
        last = next(r for r in reversed(rows) if r.rest is not None)
        right, above = (r.indent + len(r.offset) for r in (found, last))
        if found.indent == last.indent or right == above:
            return rows if int(found.offset, 16) > int(last.offset, 16) else None
    return None


def _holds_bytes(rows: list[Row]) -> bool:
    return any(sum(len(c.data) for c in cells(r.rest, KINDS[0])) >= 8 for r in rows if r.rest)


def _continues(runs: list[tuple[str, Run]], run: Run) -> bool:
    return any(r.start + len(r.data) == run.start for _, r in runs[-2:])


def _may_be_dump(rows: list[Row], before: list[tuple[str, Run]]) -> bool:
    """Return whether these rows are more than hex that happens to have a number in front."""
    first = rows[0]
    digits = first.offset.removeprefix("0x").removeprefix("0X")
    if not first.mark and first.rest is not None and first.rest.lstrip()[:2] in ("0x", "0X"):
        return False  # "0x80 0x57": all of them are bytes
    if len(rows) > 1:
        return bool(first.mark) or len(digits) >= 3
    if any(int(first.offset, 16) == run.start + len(run.data) for _, run in before[-3:]):
        return True
    return len(digits) >= 3 and (bool(first.mark) or not digits.strip("0"))


def _looks_broken(rows: list[Row]) -> bool:
    first = rows[0]
    aligned = first.mark == ":" or not first.offset.strip("0x")
    return aligned and len(first.offset) >= 4 and all(len(cells(r.rest, KINDS[0])) >= 4 for r in rows[:2] if r.rest)


def _append(runs: list[tuple[str, Run]], title: str, run: Run) -> None:
    """Append ``run`` to the piece that it continues, else to the list."""
    if run.start:
        for index in range(len(runs) - 1, max(-1, len(runs) - 3), -1):
            heading, piece = runs[index]
            if piece.indent == run.indent and piece.start + len(piece.data) == run.start:
                runs[index] = (heading, piece._replace(data=piece.data + run.data))
                return
    runs.append((title, run))


def read_dump(text: str) -> Pasted | None:
    """Return the bytes of every dump in ``text``, or None."""
    found = find_dumps(text)
    if found is None:
        return None
    notes = list(dict.fromkeys(note for _, run in found.runs for note in run.notes))
    parts = with_reassembled([run.data for _, run in found.runs], [run.data for _, run in found.derived])
    dropped = [title for title, run in found.derived if run.data not in parts]
    if dropped:
        notes.append(f"{counted(len(dropped), 'derived dump')} dropped ({dropped[0]})")
    if _CUT_OFF.search(text[-80:]):
        notes.append(CUT)
    return Pasted(found.runs[0][1].style, parts, tuple(notes))
