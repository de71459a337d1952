"""Drop all privileges once the interface is open, since what parses other people's bytes should have none.

Knows who called sudo, and how a process makes sure that it never regains a privilege. Files that are written afterwards
belong to that user; where root called without sudo, they have to be root's. On Linux a thread drops only its own
privileges: there must still be only one thread, and whether any kept one is read from the kernel.
"""

import ctypes
import errno
import os
import pwd
from pathlib import Path
from struct import pack

from dcpdump.errors import LiveError, system_words

_NO_NEW_PRIVILEGES = 38
_CAPABILITIES_3 = 0x20080522
#: The kernel's status of a thread that has no privilege, and no way to regain one.
_WITHOUT = {"CapInh": 0, "CapPrm": 0, "CapEff": 0, "CapAmb": 0, "NoNewPrivs": 1}


def drop(*, writes: bool) -> str:
    """Drop all privileges, for good, and return the name of the user that the process continues as.

    Root becomes whoever called sudo, or the user nobody. If root has files to write, it stays root by name (who else
    may write where root wants them?), but without any capability. Raises LiveError where any thread kept a privilege.
    """
    if not hasattr(os, "geteuid"):
        return ""
    user = _caller() or (None if writes else _nobody()) if os.geteuid() == 0 else None
    try:
        if user is not None:
            if user.pw_name:
                os.initgroups(user.pw_name, user.pw_gid)
            else:
                os.setgroups([])
            os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
            os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
        _renounce()
        _verify()
    except OSError as error:
        what = f"the rights to capture could not be given up: {system_words(error)}"
        raise LiveError(what, "", "dumpcap -w - | dcpdump read -") from error
    if user is None:
        return "root without capabilities" if os.geteuid() == 0 else ""
    return user.pw_name or f"uid {user.pw_uid}"


def _caller() -> pwd.struct_passwd | None:
    """Return who called sudo; None without sudo, or where root called it."""
    try:
        uid, gid = int(os.environ.get("SUDO_UID", "0")), int(os.environ.get("SUDO_GID", "0"))
    except ValueError:
        return None
    if uid <= 0:
        return None
    return _of_uid(uid, gid)


def _nobody() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        return _of_uid(65534, 65534)


def _of_uid(uid: int, gid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:  # no name is known here, as in a container
        return pwd.struct_passwd(("", "", uid, gid, "", "", ""))


def _renounce() -> None:
    """Give up every capability, and any way to regain one, even by running a program that has some."""
    libc = ctypes.CDLL(None, use_errno=True)
    for done in (
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        libc.capset(pack("=Ii", _CAPABILITIES_3, 0), bytes(24)),
    ):
        if done:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _verify() -> None:
    """Raise OSError if any thread of this process kept a privilege, or may regain one."""
    for task in Path("/proc/self/task").iterdir():
        try:
            lines = (task / "status").read_text(errors="replace").splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        status = {
            name: int(value, 16) for name, _, value in (line.partition(":") for line in lines) if name in _WITHOUT
        }
        if status != _WITHOUT:
            raise OSError(errno.EPERM, f"thread {task.name} has some still")
