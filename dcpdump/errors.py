"""Define the user's errors: what went wrong, where, and what to try. Damaged bytes are not errors, they are data."""


class DcpdumpError(Exception):
    """An error that a user can act on. Carries what, where and a hint (a command or an action to try), or several."""

    def __init__(self, what: str, where: str = "", hint: str = "", more: tuple[str, ...] = ()) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint
        self.more = more  #: other things to try

    def __str__(self) -> str:
        return f"{self.what} ({self.where})" if self.where else self.what


class CaptureError(DcpdumpError):
    """A capture cannot be used at all: missing, unreadable, or not a capture."""


class LiveError(DcpdumpError):
    """An interface cannot be captured on: no privilege, or no such interface."""


class PasteError(DcpdumpError):
    """Pasted text cannot be read without guessing."""


class OutputError(DcpdumpError):
    """The output cannot be written."""
