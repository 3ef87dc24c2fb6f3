"""TCP congestion control, held equal for programs that open their sockets themselves.

Gloo and Open MPI take what the system gives. Another algorithm than the system's is given to them (and to us) in
one of two ways: a network namespace of our own whose loopback routes name it, which nobody else notices and which
ends with this process; or the system's setting, changed for the run and restored after it.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

SETTING = Path("/proc/sys/net/ipv4/tcp_congestion_control")
CLONE_NEWNET = 0x40000000
LOCAL_ROUTES = ("127.0.0.0/8", "127.0.0.1")
NAME_BYTES = 16


class Refused(Exception):
    """The machine does not let us choose; the text says what was tried and what to do."""


def in_force() -> str:
    """What a loopback connection opened now gets, on both ends: system's setting and routes considered."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as connecting:
            accepted, _ = listener.accept()
            with accepted:
                ends = {_of(connecting), _of(accepted)}
    return "/".join(sorted(ends))


def _of(connection: socket.socket) -> str:
    name = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, NAME_BYTES)
    return name.rstrip(b"\0").decode()


@contextmanager
def held_at(name: str, how: str) -> Iterator[str]:
    """Holds loopback connections of this process and its children at `name`; yields how, in words.

    `how` is `namespace` or `sysctl`. Raises `Refused` where that is not possible, with nothing left changed.
    """
    if in_force() == name:
        yield f"{name}, the system's default"
    elif how == "namespace":
        _enter_namespace(name)
        yield f"{name}, by routes of a network namespace of this run's own"
    else:
        before = SETTING.read_text().strip()
        try:
            _set(name)
            _check(name)
            yield f"{name}, by the system's setting, {before} before and after this run"
        finally:
            _set(before)


def _set(name: str) -> None:
    try:
        SETTING.write_text(name)
    except OSError as error:
        raise Refused(f"{SETTING} could not be set to {name}: {error}") from error


def _check(name: str) -> None:
    if in_force() != name:
        raise Refused(f"asked for {name}, but loopback connections get {in_force()}")


def _enter_namespace(name: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise Refused(f"no network namespace: {reason}. Root may have one; others start this under `unshare -r`")
    _ip("link", "set", "lo", "up")
    for route in LOCAL_ROUTES:
        target = ["local", route, "dev", "lo", "table", "local", "proto", "kernel", "scope", "host"]
        _ip("route", "replace", *target, "src", "127.0.0.1", "congctl", name)
    _check(name)


def _ip(*arguments: str) -> None:
    try:
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=10)
    except FileNotFoundError as error:
        raise Refused("`ip` of iproute2 is not installed") from error
    except subprocess.CalledProcessError as error:
        raise Refused(f"ip {' '.join(arguments)}: {error.stderr.strip()}") from error
    except subprocess.TimeoutExpired as error:
        raise Refused(str(error)) from error
