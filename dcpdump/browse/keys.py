"""The keys of the screen: one table that binds them, that help prints, and that tests press.

Keys have the names that Textual gives them; ``shown`` is how people write them.
"""

from typing import NamedTuple


class Key(NamedTuple):
    """Keys, what they do, and in which words that is said."""

    keys: str  #: separated by blanks
    shown: str
    action: str
    text: str

    @property
    def bound(self) -> str:
        """Return the keys as a binding has them."""
        return ",".join("comma" if key == "," else key for key in self.keys.split())


#: Title of a group → its keys, in the order of help.
KEYS: dict[str, tuple[Key, ...]] = {
    "Move": (
        Key("up k", "↑ k", "pane('move', -1)", "one up"),
        Key("down j", "↓ j", "pane('move', 1)", "one down"),
        Key("pageup ctrl+b", "PgUp ^B", "pane('page', -1)", "a screen up"),
        Key("pagedown ctrl+f", "PgDn ^F", "pane('page', 1)", "a screen down"),
        Key("home g", "Home g", "pane('edge', -1)", "to the first"),
        Key("end G", "End G", "pane('edge', 1)", "to the last"),
        Key("left h", "← h", "pane('aside', -1)", "a byte back in the bytes; elsewhere the text to the left"),
        Key("right l", "→ l", "pane('aside', 1)", "a byte on in the bytes; elsewhere the text to the right"),
        Key(":", ":", "ask_place", "go to a frame, a time, +30s from the start, 40 %"),
        Key("tab", "Tab", "focus_next", "the next pane"),
        Key("shift+tab", "⇧Tab", "focus_previous", "the previous pane"),
        Key("enter", "Enter", "enter", "in a tab: the frames of the row; in a dialogue: the frame"),
        Key("escape", "Esc", "step_back", "step back: a dialogue, a filter, a jump"),
        Key("alt+left", "Alt-←", "step_back", "the place before"),
        Key("alt+right", "Alt-→", "do('browser', 'forward')", "the place that Alt-← left"),
    ),
    "Jump": (
        Key("r", "r", "do('browser', 'answer')", "from a request to its response, and back"),
        Key("n", "n", "do('browser', 'of_stream', 1)", "the next frame of this stream"),
        Key("N", "N", "do('browser', 'of_stream', -1)", "the previous frame of this stream"),
        Key("s", "s", "do('browser', 'snapshot', 1)", "the next snapshot of this stream"),
        Key("S", "S", "do('browser', 'snapshot', -1)", "the previous snapshot of this stream"),
        Key("x", "x", "do('browser', 'marker')", "the marker of the snapshot that the frame is in"),
        Key("p", "p", "do('browser', 'problem', 1)", "the next row with a problem, a refusal or lost bytes"),
        Key("P", "P", "do('browser', 'problem', -1)", "the previous row with one"),
    ),
    "Choose": (
        Key("/", "/", "filter", "the filter: the options of read; ↑ its history, Tab completes"),
        Key("*", "*", "do('browser', 'filter_field')", "only frames with the value of the selected field"),
        Key("!", "!", "do('browser', 'exclude_field')", "no frames with the value of the selected field"),
        Key("f", "f", "do('browser', 'only_stream')", "only this stream"),
        Key("F", "F", "do('browser', 'only_connection')", "only this connection"),
        Key("\\", "\\", "search", "search a text in what is listed, hiding nothing"),
        Key(".", ".", "do('browser', 'find', 1)", "the next row with that text"),
        Key(",", ",", "do('browser', 'find', -1)", "the previous row with that text"),
    ),
    "Show": (
        Key("1", "1", "tab('frames')", "frames"),
        Key("2", "2", "tab('streams')", "streams, those in trouble first"),
        Key("3", "3", "tab('findings')", "findings: broken rules"),
        Key("4", "4", "tab('connections')", "connections"),
        Key("o", "o", "do('pages', 'sort')", "in a tab: sort by the next column"),
        Key("e", "e", "rule_page", "in findings: the page of the rule"),
        Key("d", "d", "do('pages', 'talk')", "the dialogue of this stream"),
        Key("z", "z", "do('screen', 'zoom')", "one pane over all, and back"),
        Key(
            "t",
            "t",
            "do('screen', 'next_times')",
            "times: clock; since the start, the row above, the marked row",
        ),
        Key("v", "v", "do('screen', 'next_view')", "the bytes as on the wire, decompressed, as JSON"),
        Key("i", "i", "about", "what the capture is, and what of it is damaged"),
        Key("L", "L", "follow", "stay at the end; any move up stops that"),
    ),
    "Take along": (
        Key("m", "m", "do('marks', 'mark')", "mark the frame"),
        Key("u", "u", "do('marks', 'unmark')", "unmark the frame"),
        Key("M", "M", "do('marks', 'mark_range')", "mark all from the last marked frame to this one"),
        Key("'", "'", "do('marks', 'next')", "the next marked frame"),
        Key("w", "w", "write", "write the marked frames, else the listed: .pcapng (as carve), .ndjson, .txt, .csv"),
        Key("y", "y", "copy", "copy: the field, the bytes, the frame, the command line"),
    ),
    "Leave": (
        Key("?", "?", "help", "these keys"),
        Key("q ctrl+c", "q ^C", "leave", "leave; marks are asked about once"),
        Key("ctrl+z", "^Z", "suspend_process", "to the background"),
    ),
}

#: What the last line of the screen says.
HINTS = (
    ("/", "filter"),
    ("r", "answer"),
    ("n N", "stream"),
    ("s", "snapshot"),
    ("d", "dialogue"),
    ("m", "mark"),
    ("w", "write"),
    ("?", "help"),
    ("q", "quit"),
)


def all_keys() -> list[Key]:
    """Return the rows of the table."""
    return [key for group in KEYS.values() for key in group]


def help_lines() -> list[tuple[str, str]]:
    """Return the table as lines: keys, and what they do; titles have no text."""
    out: list[tuple[str, str]] = []
    for title, keys in KEYS.items():
        out += [(title, "")] if not out else [("", ""), (title, "")]
        out += [(key.shown, key.text) for key in keys]
    return out
