"""Reduce a filter to conditions on headers, to skip most frames of a large capture without decoding them."""

from collections.abc import Mapping

from dcpdump.filter.opcode_names import named_opcodes
from dcpdump.filter.ranges import parse_ranges
from dcpdump.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """Requests that may pass a filter. ``opcodes`` and ``vbuckets`` have a byte for each number, 1 for yes."""

    opcodes: bytes
    vbuckets: bytes


def wanted_of(texts: Mapping[str, str]) -> Wanted | None:
    """Return a filter's conditions on headers; None where it has none on opcodes and vbuckets."""
    if not texts.keys() & {"opcode", "vbucket"}:
        return None
    opcodes, vbuckets = b"\1" * 256, b"\1" * 65_536
    if "opcode" in texts:
        wanted, excluded = named_opcodes(texts["opcode"])
        opcodes = bytes([(False, op) not in excluded and (not wanted or (False, op) in wanted) for op in range(256)])
    if "vbucket" in texts:
        vbuckets = parse_ranges("--vbucket", texts["vbucket"], 0xFFFF).table(65_536)
    return Wanted(opcodes, vbuckets)
