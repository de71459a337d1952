"""Define the error of a filter that cannot be understood."""

from dcpdump.errors import DcpdumpError


class FilterError(DcpdumpError):
    """A clause that cannot be understood: names the option, the text and the nearest right one."""
