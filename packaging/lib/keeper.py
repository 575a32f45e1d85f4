#!/usr/bin/env python3
"""Runs a command and ends everything that came of it: nothing outlives the one who asked.

    keeper.py [--watch PID] [--pid-file FILE] [--remove DIR]... -- COMMAND [ARG]...

The keeper is the reaper of all its descendants (PR_SET_CHILD_SUBREAPER), so a server that detached itself stays in its
tree. It ends them all, with SIGKILL, as soon as the command ends, the watched process dies (however it dies), or the
keeper is told to stop (SIGTERM, SIGINT, SIGHUP: the command gets SIGTERM and ten seconds first). It lives in a session of
its own, so that a Ctrl-C meant for the one who asked does not end it before its work is done. The exit code is the
command's (128 + n for a signal).
"""

import argparse
import ctypes
import os
import select
import shutil
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
STOP_GRACE = 10.0  # seconds between SIGTERM and SIGKILL for the command
KILL_LIMIT = 20.0  # seconds until a process that survives SIGKILL is reported


def descendants(of):
    """The PIDs below a process, from one look at /proc."""
    children = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # gone meanwhile
        children.setdefault(int(fields[1]), []).append(int(name))
    found, todo = [], [of]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def reap(codes):
    """Takes the exit codes of all dead children."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        codes[pid] = os.waitstatus_to_exitcode(status)


def end_all(codes):
    """Kills every descendant until there is none; says which cannot be killed."""
    deadline = time.monotonic() + KILL_LIMIT
    while True:
        reap(codes)
        left = descendants(os.getpid())
        if not left:
            return
        if time.monotonic() > deadline:
            print(f"keeper: cannot end processes {left}", file=sys.stderr)
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


def start(command):
    """Forks the command into a session of its own."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"keeper: cannot run {command[0]}: {error}\n".encode())
        finally:
            os._exit(127)
    return pid


def keep(child, watched, wake, stops, codes):
    """Waits for the end of the command, of the watched process, or of the grace after a stop signal."""
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    if watched is not None:
        poll.register(watched, select.POLLIN)
    deadline = None
    while True:
        left = None if deadline is None else max(0, deadline - time.monotonic()) * 1000
        ready = [fd for fd, _ in poll.poll(left)]
        if wake in ready:
            os.read(wake, 4096)
        reap(codes)
        if child in codes or (watched is not None and watched in ready):
            return
        if stops and deadline is None:
            deadline = time.monotonic() + STOP_GRACE
            os.kill(child, signal.SIGTERM)
        if deadline is not None and time.monotonic() >= deadline:
            return


def main():
    parser = argparse.ArgumentParser(prog="keeper.py", description=__doc__.splitlines()[0])
    parser.add_argument("--watch", type=int)
    parser.add_argument("--pid-file")
    parser.add_argument("--remove", action="append", default=[])
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()

    if os.getpid() != os.getsid(0):
        os.setsid()
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("keeper: this kernel has no PR_SET_CHILD_SUBREAPER")
    try:
        watched = None if args.watch is None else os.pidfd_open(args.watch)
    except ProcessLookupError:
        sys.exit(f"keeper: process {args.watch} is gone already")

    wake, wake_in = os.pipe()
    os.set_blocking(wake_in, False)
    signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
    stops, codes = [], {}
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: stops.append(number))
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    if args.pid_file:
        with open(args.pid_file, "w", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
    child = start(args.command)
    try:
        keep(child, watched, wake, stops, codes)
    finally:
        end_all(codes)
        for folder in args.remove:
            shutil.rmtree(folder, ignore_errors=True)
    code = codes.get(child, 1)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
