# SPDX-License-Identifier: Apache-2.0
"""Runs of nam-bench: each command line once, some at a time, results kept for the next call."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from plan import command

USAGE, FABRIC, SIGNAL = 2, 3, 128
POLL_S = 0.005


class Stop(Exception):
    """The program ends with this exit status."""

    def __init__(self, status, message=""):
        super().__init__(message)
        self.status = status


class Runs:
    """Processes of nam-bench, and a folder of results by command line.

    A result is found again by the command line, the program and the profiles, so an interrupted
    call resumes, and a new build runs everything anew.
    """

    def __init__(self, program, folder, o):
        self.program, self.folder, self.o = program, folder, o
        self.signal = 0
        self.failed = set()
        self.running = {}
        self.version = self._version()
        os.makedirs(folder, exist_ok=True)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._told)

    def _told(self, number, _frame):
        self.signal = number

    def _version(self):
        is_ = os.stat(self.program)
        return f"{is_.st_size} {is_.st_mtime_ns}"

    def path(self, args):
        text = json.dumps([self.version, self.o.profile_text(args), args])
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        return os.path.join(self.folder, name + ".json")

    def start(self, args):
        out, err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        process = subprocess.Popen([self.program, *args], stdout=out, stderr=err)
        self.running[process] = (args, out, err)

    def reap(self):
        """Wait for a process; returns (arguments, exit status, output, message)."""
        while True:
            if self.signal:
                self.end_all()
            for process, (args, out, err) in self.running.items():
                if process.poll() is None:
                    continue
                del self.running[process]
                texts = []
                for file in (out, err):
                    file.seek(0)
                    texts.append(file.read())
                    file.close()
                message = (texts[1].splitlines() or [""])[0].removeprefix("nam-bench: ")
                if process.returncode < 0 and not message:
                    message = f"ended by signal {-process.returncode}"
                return args, process.returncode, texts[0], message
            time.sleep(POLL_S)

    def end_all(self):
        """A simulation ends with its process; on a real cluster a run drops its index first."""
        for process in self.running:
            process.send_signal(signal.SIGKILL if self.o.simulated else signal.SIGTERM)
        for process in self.running:
            process.wait()
        raise Stop(SIGNAL + self.signal)

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
        self.start(args)
        _, status, out, message = self.reap()
        return (json.loads(out) if status == 0 else None), status, message

    def points(self, name, points):
        """Run the points that have no result yet.  Returns how many failed."""
        todo = []
        for point in points:
            args = command(self.o, point)
            if args not in todo and tuple(args) not in self.failed and not self.result(args):
                todo.append(args)
        total, done, failed = len(todo), 0, 0
        while todo or self.running:
            self.progress(name, done, total)
            while todo and len(self.running) < self.o.jobs and not self.signal:
                self.start(todo.pop(0))
            args, status, out, message = self.reap()
            done += 1
            if status == 0:
                self.keep(args, out)
                continue
            failed += 1
            self.failed.add(tuple(args))
            complain(" ".join(["nam-bench", *args]) + ": " + (message or "it gave no result"))
        self.progress(name, None, None)
        for point in points:
            point.result = self.result(command(self.o, point))
        return failed

    def progress(self, name, done, total):
        if self.o.quiet or not sys.stderr.isatty():
            return
        text = f"{name}: {done} of {total} points" if done is not None else ""
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def complain(text):
    print(f"draw: {text}", file=sys.stderr)
