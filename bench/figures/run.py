# SPDX-License-Identifier: Apache-2.0
"""Runs of nam-bench: each command line once, some at a time, results kept for the next call."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed

from plan import command, of_line

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "peers"))
# pylint: disable=wrong-import-position
from program import Stop

USAGE, FABRIC, SIGNAL = 2, 3, 128


class Runs:
    """Processes of nam-bench, and a folder of results by command line.

    A result is found again by the command line, the program and the profiles. So an interrupted
    call resumes, and a new build runs everything anew.
    """

    def __init__(self, program, folder, o):
        self.program, self.folder, self.o = program, folder, o
        self.signal = 0
        self.failed = set()
        self.running = set()
        self.version = self._version()
        os.makedirs(folder, exist_ok=True)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._told)

    def _told(self, number, _frame):
        self.signal = number
        for process in list(self.running):
            self.end(process)

    def _version(self):
        is_ = os.stat(self.program)
        return f"{is_.st_size} {is_.st_mtime_ns}"

    def path(self, args):
        text = json.dumps([self.version, self.o.profile_text(args), args])
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        return os.path.join(self.folder, name + ".json")

    def run(self, args):
        """A process of nam-bench; returns its exit status, output and message."""
        program = [self.program]
        if args[0] == "peers":
            program = [os.path.join(os.path.dirname(self.program), "nam-bench-peers")]
            args = args[1:]
        with subprocess.Popen([*program, *args], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            self.running.add(process)
            if self.signal:
                self.end(process)
            out, messages = process.communicate()
            self.running.remove(process)
        message = (messages.splitlines() or [""])[0].removeprefix("nam-bench: ")
        if process.returncode < 0 and not message:
            message = f"ended by signal {-process.returncode}"
        return process.returncode, out, message

    def run_all(self, todo):
        """Runs some at a time; yields the arguments and what run() returns."""
        with ThreadPoolExecutor(self.o.jobs) as pool:
            runs = {pool.submit(self.run, args): args for args in todo}
            for ended in as_completed(runs):
                if self.signal:
                    pool.shutdown(cancel_futures=True)
                    raise Stop(SIGNAL + self.signal)
                yield runs[ended], *ended.result()

    def end(self, process):
        """A simulation ends with its process; on a real cluster a run drops its index first."""
        process.send_signal(signal.SIGKILL if self.o.simulated else signal.SIGTERM)

    def result(self, args):
        try:
            with open(self.path(args), encoding="utf-8") as file:
                return json.load(file)["result"]
        except (OSError, ValueError, KeyError):
            return None

    def keep(self, args, text):
        path = self.path(args)
        kept = {"command": ["nam-bench", *args], "result": json.loads(text)}
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(kept, file)
        os.replace(path + ".new", path)

    def probe(self, args):
        """Run alone: (result or None, exit status, message)."""
        for _, status, out, message in self.run_all([args]):
            return (json.loads(out) if status == 0 else None), status, message

    def points(self, name, points):
        """Run the points that have no result yet.  Returns how many failed."""
        todo = []
        for point in points:
            args = command(self.o, point)
            if args not in todo and tuple(args) not in self.failed and not self.result(args):
                todo.append(args)
        total, done, failed = len(todo), 0, 0
        self.progress(name, done, total)
        for args, status, out, message in self.run_all(todo):
            done += 1
            self.progress(name, done, total)
            if status == 0:
                self.keep(args, out)
                continue
            failed += 1
            self.failed.add(tuple(args))
            complain(" ".join(["nam-bench", *args]) + ": " + (message or "it gave no result"))
        self.progress(name, None, None)
        for point in points:
            point.result = of_line(point, self.result(command(self.o, point)))
        return failed

    def progress(self, name, done, total):
        if self.o.quiet or not sys.stderr.isatty():
            return
        text = f"{name}: {done} of {total} points" if done is not None else ""
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def complain(text):
    print(f"{os.path.basename(sys.argv[0])}: {text}", file=sys.stderr)
