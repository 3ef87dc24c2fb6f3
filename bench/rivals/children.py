"""Child processes that cannot outlive their measurement: every one has a limit, and a group that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from typing import IO, Mapping, Optional, Sequence

LAST_WORDS = 300
KILL_LIMIT_S = 10.0
DEAD = ("Z", "X")


class Failed(Exception):
    """A child ended badly or had to be killed; the text says which and what it said last."""


def run_together(
    commands: Sequence[Sequence[str]], limit_s: float, environment: Optional[Mapping[str, str]] = None
) -> str:
    """Runs all commands at once and returns what the first wrote to stdout.

    Blocks until all have ended, one has failed, or `limit_s` seconds are over; whatever still runs then is
    killed with its descendants. Raises `Failed` unless all ended with 0.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        children: list[subprocess.Popen[bytes]] = []
        try:
            for index, command in enumerate(commands):
                stdout = out if index == 0 else subprocess.DEVNULL
                children.append(_start(command, stdout, errors, environment))
            problem = _wait(children, time.monotonic() + limit_s, limit_s)
        finally:
            for child in children:
                _kill_session(child)
        if problem is not None:
            raise Failed(f"{os.path.basename(commands[0][0])} {problem}: {_last_words(errors)}")
        out.seek(0)
        return out.read()


def _start(
    command: Sequence[str], stdout: IO[str] | int, stderr: IO[str], environment: Optional[Mapping[str, str]]
) -> subprocess.Popen[bytes]:
    merged = {**os.environ, **(environment or {})}
    try:
        return subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=merged, start_new_session=True
        )
    except OSError as error:
        raise Failed(f"{command[0]} did not start: {error}") from error


def _wait(children: Sequence[subprocess.Popen[bytes]], deadline: float, limit_s: float) -> Optional[str]:
    """None when all ended with 0, else what went wrong; returns at the first failure."""
    while True:
        endings = [_ending(child) for child in children]
        failed = next((ending for ending in endings if ending not in (None, "0")), None)
        if failed is not None:
            return f"ended with {failed}"
        if None not in endings:
            return None
        if time.monotonic() > deadline:
            return f"was killed after {limit_s:.0f} s"
        time.sleep(0.05)


def _ending(child: subprocess.Popen[bytes]) -> Optional[str]:
    """How the child ended, None while it runs. It is not reaped, so that its id stays its own until the kill."""
    end = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if end is None:
        return None
    return str(end.si_status) if end.si_code == os.CLD_EXITED else f"signal {end.si_status}"


def _kill_session(child: subprocess.Popen[bytes]) -> None:
    """Kills the child and all of its session, also those in process groups of their own, until none lives."""
    deadline = time.monotonic() + KILL_LIMIT_S
    while (alive := _alive_in(child.pid)) and time.monotonic() < deadline:
        for process in alive:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)
    child.wait()


def _alive_in(session: int) -> list[int]:
    alive = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                state, _, _, its_session = stat.read().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_session) == session and state not in DEAD:
            alive.append(int(name))
    return alive


def _last_words(errors: IO[str]) -> str:
    errors.seek(0)
    text = " / ".join(line.strip() for line in errors.read().splitlines() if line.strip())
    return text[-LAST_WORDS:] or "it said nothing"
