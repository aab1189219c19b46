# SPDX-License-Identifier: Apache-2.0
"""Servers of a comparison, which end with it: memory servers, memcached and redis."""

import csv
import ctypes
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time

from program import Stop

NO, USAGE, REMOTE, SIGNAL = 1, 2, 6, 128  # common/exit.h
BATCH = 64  # keys of a call that looks up many
ENGINES = ("chained", "cuckoo", "one-sided")  # of stores; the last one: of cuckoo
BATCH_MAX = 64  # GETs of one call
KEY_BYTES, STORE_KEY_BYTES = 12, 16  # as redis-benchmark makes keys, and as nam-bench kv does
START_TRIES = 3  # another process may take the port in between
READY_SECONDS, END_SECONDS, SILENCE_SECONDS = 60, 3, 5
REDIS_SECONDS_MIN = 0.02  # redis-benchmark counts milliseconds
CHUNK_BYTES = 65536
FINDINGS_PRINTED_MAX = 10


def complain(text):
    print(f"nam-bench-peers: {text}", file=sys.stderr)


def find_bench():
    """nam-bench, whose folder has the other programs: beside this one, in PATH, or just built."""
    here = os.path.dirname(os.path.abspath(sys.argv[0]))
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    for path in (os.path.join(here, "nam-bench"), shutil.which("nam-bench"),
                 os.path.join(source, "build", "release", "bin", "nam-bench")):
        if path and os.access(path, os.X_OK):
            return os.path.realpath(path)
    raise Stop(NO, "there is no nam-bench beside this program or in PATH; build or install it")


def beside(bench, program):
    """A program in the folder of nam-bench, or in PATH; None: there is none."""
    path = os.path.join(os.path.dirname(bench), program)
    return path if os.access(path, os.X_OK) else shutil.which(program)


LIBC = ctypes.CDLL(None)


def dying_with(parent):
    """For a child: the kernel kills it with its parent, and ^C is for the parent to act on."""

    def prepare():
        if LIBC.prctl(1, signal.SIGKILL) or os.getppid() != parent:  # PR_SET_PDEATHSIG
            os._exit(125)
        os.setpgid(0, 0)

    return prepare


class Child:
    """A server that ends with this process."""

    def __init__(self, command, log, **options):
        self.log = log
        with open(log, "wb") as file:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                preexec_fn=dying_with(os.getpid()), **options)

    def lives(self):
        return self.process.poll() is None

    def last_words(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return ([line.strip() for line in file if line.strip()] or [""])[-1]

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(name, begin, is_ready):
    """Start a server by begin(), until is_ready(child); begin() chooses a port anew each time."""
    for _ in range(START_TRIES):
        child = begin()
        until = time.monotonic() + READY_SECONDS
        try:
            while child.lives() and time.monotonic() < until:
                if is_ready(child) and child.lives():
                    return child
                time.sleep(0.01)
            if child.lives():
                raise Stop(REMOTE, f"{name} did not get ready within {READY_SECONDS} s")
        except BaseException:
            child.end()
            raise
    words = child.last_words()
    raise Stop(REMOTE, f"{name} ended at once" + (f": {words}" if words else ""))


def free_port():
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


def run(command, name, timeout=None):
    """Run a load generator; returns its exit status, output and messages."""
    try:
        made = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=timeout,
                              preexec_fn=dying_with(os.getpid()), check=False)
    except subprocess.TimeoutExpired:
        raise Stop(REMOTE, f"{name}: it does not answer") from None
    return made.returncode, made.stdout, made.stderr


def run_json(command, name):
    """The same of a program of ours, which finds errors itself: its results."""
    status, out, messages = run(command, name)
    sys.stderr.write(messages)
    if status not in (0, NO) or not out:
        raise Stop(status if status > 0 else REMOTE)
    return json.loads(out)


class Memory:
    """A memory server, or those of --cluster: raw READs and lookups in an index; or stores."""

    def __init__(self, o, bench, folder, fabric):
        self.o, self.bench, self.fabric = o, bench, fabric
        self.cluster, self.child, self.loaded = o.cluster, None, None
        self.index = f"peers-{os.getpid()}"
        if fabric:
            self.child = start(f"nam-memserver over {fabric}", lambda: self.begin(folder),
                               lambda child: os.path.getsize(child.log + ".ready"))

    def begin(self, folder):
        program = beside(self.bench, "nam-memserver")
        if not program:
            raise Stop(NO, "there is no nam-memserver beside nam-bench or in PATH; start one, and "
                       "say --cluster")
        self.cluster = (f"shm:{folder}/memserver" if self.fabric == "shm" else
                        f"{self.fabric}:127.0.0.1:{free_port()}")
        # Of a pair: 64 bytes in the index, in blocks of the same size, and room to spare.  A
        # store takes twice its pairs.
        pair = 512 + 4 * self.o.bytes if self.o.workload else 64
        size = 64 + (self.o.keys * pair >> 20) + 1
        # A region has blocks of one size: the catalog takes one, a store others.
        region = 4 if self.o.workload else min(size, 1024)
        log = os.path.join(folder, f"memserver-{self.fabric}.log")
        with open(log + ".ready", "wb") as ready:
            return Child([program, "--listen", self.cluster, "--memory", f"{size}M", "--region",
                          f"{region}M", "--rpc-threads", "1", "--ready-fd",
                          str(ready.fileno())], log, pass_fds=[ready.fileno()])

    def on_index(self, *options):
        return run_json([self.bench, "index", "--cluster", self.cluster, "--name", self.index,
                         "--keys", self.o.keys, "--workload", "nam-a", "--json", "-", "--keep",
                         *options], self.index)

    def on_store(self, engine, *options):
        get = "onesided" if engine == "one-sided" else "request"
        return run_json([self.bench, "kv", "--cluster", self.cluster, "--get", get,
                         "--engine", "chained" if engine == "chained" else "cuckoo",
                         "--value-bytes", self.o.bytes, "--workload", self.o.workload,
                         "--distribution", self.o.distribution, "--json", "-", *options],
                        f"a store, {engine}")

    def load(self):
        """Loads the index.  READs find as much memory: caches of processors help both alike.

        A store is loaded anew for each turn.
        """
        if self.o.workload:
            self.loaded = self.on_store("chained", "--keys", 1, "--ops", 1)
            self.fabric = self.loaded["fabric"]
            return self.loaded["errors"]
        self.loaded = self.on_index("--ops", "1")
        self.fabric = self.loaded["fabric"]
        return self.loaded["errors"]

    def to_json(self):
        return {"fabric": self.fabric}

    def systems(self):
        """Names, and what each is reached over."""
        lookups = ("raw READs", "raw READs, fibers", "lookups", "lookups, batched")
        return [(system, self.fabric) for system in (ENGINES if self.o.workload else lookups)]

    def turn(self, system, depth, length, seed):
        common = ["--seconds", length, "--seed", seed]
        if system in ENGINES:
            # Requests under way are those of one call, if all are GETs.
            batch = min(depth, BATCH_MAX) if self.o.workload == "ycsb-c" else 1
            return self.on_store(system, "--keys", self.o.keys, "--fibers", depth // batch,
                                 "--batch", batch, *common)
        if system.startswith("lookups"):
            batch = BATCH if system.endswith("batched") else 1
            return self.on_index("--load", "none", "--fibers", depth, "--batch", batch, *common)
        loop = "fibers" if system.endswith("fibers") else "window"
        size = max(self.loaded["memory"]["remote_bytes"], 1 << 20)
        return run_json([self.bench, "raw", "--cluster", self.cluster, "--depth", depth, "--loop",
                         loop, "--memory", size, "--json", "-", *common], system)

    def end(self):
        namctl = beside(self.bench, "namctl")
        if self.child:
            self.child.end()
        elif namctl:
            subprocess.run([namctl, "--cluster", self.cluster, "index", "drop", self.index],
                           capture_output=True, check=False)
        else:
            complain(f"there is no namctl to drop index {self.index}, which stays")


class Peer:
    """memcached or redis, at a Unix socket or a port: one thread for requests, nothing on disk."""

    system, threads, program = "", "", ""
    errors = ()  # what begins lines that say why not

    def __init__(self, o, bench, folder, transport):
        self.o, self.bench, self.transport = o, bench, transport
        self.name = f"{self.system} over {transport}"
        self.path = os.path.join(folder, f"{self.system}-{transport}")
        self.port, self.socket, self.stream, self.version, self.findings = 0, None, None, "", 0
        self.inserted = 0
        self.key_bytes = STORE_KEY_BYTES if o.workload else KEY_BYTES
        self.child = start(self.name, self.begin, lambda child: self.connect())

    def begin(self):
        if self.transport == "tcp":
            self.port = free_port()
        return Child(self.command(), self.path + ".log")

    def connect(self):
        """Whether it listens.  Conversations have a connection each."""
        self.socket = socket.socket(
            socket.AF_UNIX if self.transport == "unix" else socket.AF_INET)
        self.socket.settimeout(SILENCE_SECONDS)
        try:
            self.socket.connect(
                self.path if self.transport == "unix" else ("127.0.0.1", self.port))
        except OSError:
            self.socket.close()
            return False
        self.stream = self.socket.makefile("rb")
        return True

    def conversation(self, speak):
        """What speak() returns, which has one connection to the server."""
        if self.socket.fileno() < 0 and not self.connect():
            raise Stop(REMOTE, f"{self.name}: it takes no connection")
        try:
            return speak()
        except TimeoutError:
            raise Stop(REMOTE, f"{self.name}: it does not answer") from None
        except OSError as error:
            raise Stop(REMOTE, f"{self.name}: the connection is gone: {error}") from None
        finally:
            self.stream.close()
            self.socket.close()

    def line(self):
        """A line of the server without its end."""
        line = self.stream.readline(512)
        if not line:
            raise Stop(REMOTE, f"{self.name}: it has closed the connection")
        text = line[:-2].decode(errors="replace")
        if line.startswith(self.errors):
            raise Stop(REMOTE, f"{self.name}: '{text}'")
        if line[-2:] != b"\r\n":
            self.garbage()
        return text

    def garbage(self):
        raise Stop(REMOTE, f"{self.name}: what it answers makes no sense")

    def found(self, text, count=1):
        self.findings += count
        if self.findings <= FINDINGS_PRINTED_MAX:
            complain(f"{self.name}: {text}")

    def key(self, pair):
        return b"%0*d" % (self.key_bytes, pair)

    def value(self, pair):
        """A word that follows from the pair, over and over."""
        word = ((pair + 1) * 0x9E3779B97F4A7C15 & 2**64 - 1).to_bytes(8, "little")
        return (word * (self.o.bytes + 7 >> 3))[:self.o.bytes]

    def for_all(self, request, take):
        """Send request(pair) and take(pair) its reply, of all pairs; many for a system call."""
        count = max(1, CHUNK_BYTES // (self.o.bytes + 64))
        for begin in range(0, self.o.keys, count):
            pairs = range(begin, min(begin + count, self.o.keys))
            self.socket.sendall(b"".join(map(request, pairs)))
            for pair in pairs:
                take(pair)

    def load(self):
        """Stores all pairs.  Returns the number of findings, as end_of_turns() does."""
        self.version = self.conversation(self.ask_version)
        self.conversation(self.store)
        return self.findings

    def load_turn(self, depth, length, seed):
        """By the client beside this file, which asks and checks."""
        client = os.path.join(os.path.dirname(self.bench), "..", "libexec", "nam", "store_load")
        where = self.path if self.transport == "unix" else self.port
        workload = self.o.workload or "ycsb-c"
        turn = run_json([client, "--protocol", self.system, "--name", self.name, "--address", where,
                         "--pairs", self.o.keys, "--key-bytes", self.key_bytes,
                         "--value-bytes", self.o.bytes, "--depth", depth, "--seconds", length,
                         "--seed", seed, "--workload", workload,
                         "--distribution", self.o.distribution, "--inserted", self.inserted],
                        self.name)
        self.inserted = int(turn["inserted"])
        return turn

    def to_json(self):
        return {"transport": self.transport, "version": self.version}

    def systems(self):
        return [(self.system, self.transport)]

    def end_of_turns(self):
        return 0

    def end(self):
        self.child.end()


class Memcached(Peer):
    """Its client is beside this file: meta gets, the shortest requests that memcached has."""

    system, threads, program = "memcached", "-t 1", "memcached"
    errors = (b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR", b"NOT_STORED")

    def command(self):
        # 160 bytes beside a value, with room to spare; an error instead of an eviction. A table
        # that need not grow; more requests of a connection before the server looks at others.
        size = 64 + (self.o.keys * (self.o.bytes + 160) >> 20) + 1024 * bool(self.o.workload)
        power = max(16, (self.o.keys - 1).bit_length())
        where = ["-s", self.path] if self.transport == "unix" else ["-l", "127.0.0.1", "-p",
                                                                    str(self.port)]
        user = ["-u", pwd.getpwuid(0).pw_name] if os.geteuid() == 0 else []
        return [self.program, *where, *self.threads.split(), "-m", str(size), "-M", "-o",
                f"hashpower={power}", "-R", "1024", *user]

    def ask_version(self):
        self.socket.sendall(b"version\r\n")
        word, _, version = self.line().partition(" ")
        return version if word == "VERSION" else self.garbage()

    def store(self):
        size = self.o.bytes
        self.for_all(
            lambda pair: b"set %b 0 0 %d\r\n%b\r\n" % (self.key(pair), size, self.value(pair)),
            lambda pair: self.line() == "STORED" or self.garbage())

    def turn(self, _system, depth, length, seed):
        return self.load_turn(depth, length, seed)


class Redis(Peer):
    """Its client is redis-benchmark, which looks for errors alone; the rest is checked here.

    Two connections share the depth: while one waits, the other is served.
    """

    system, threads, program = "redis", "--io-threads 1", "redis-server"
    errors = (b"-",)

    def __init__(self, *args):
        self.rates, self.guess, self.missed = {}, 10**6, 0
        super().__init__(*args)

    def command(self):
        where = ["--port", str(self.port)]
        where += ["--unixsocket", self.path] if self.transport == "unix" else []
        return [self.program, *where, "--bind", "127.0.0.1", "--dir", os.path.dirname(self.path),
                "--save", "", "--appendonly", "no", *self.threads.split(), "--daemonize", "no"]

    def bulk(self):
        """A string, or None if there is none; two characters, perhaps others, end it."""
        line = self.line()
        if line == "$-1":
            return None
        if line[:1] != "$" or not line[1:].isdecimal():
            self.garbage()
        return self.stream.read(int(line[1:]) + 2)

    def info(self):
        self.socket.sendall(b"*1\r\n$4\r\nINFO\r\n")
        text = (self.bulk() or b"").decode(errors="replace")
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def ask_version(self):
        return self.info().get("redis_version") or self.garbage()

    def check(self, pair):
        value = self.bulk()
        if value is None:
            self.found(f"pair {pair} was not found")
        elif value != self.value(pair) + b"\r\n":
            self.found(f"the value of pair {pair}, {len(value) - 2} bytes, is not the one that "
                       "was stored")

    def store(self):
        """Stores all pairs, reads all, and counts misses from then on."""
        size = self.o.bytes
        self.for_all(
            lambda pair: b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (
                self.key_bytes, self.key(pair), size, self.value(pair)),
            lambda pair: self.line() == "+OK" or self.garbage())
        self.for_all(
            lambda pair: b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (
                self.key_bytes, self.key(pair)),
            self.check)
        self.missed = self.misses()

    def misses(self):
        """Of all GETs; whatever the server says besides what it was asked, is not this."""
        return int(self.info().get("keyspace_misses") or self.garbage())

    def turn(self, _system, depth, length, seed):
        if self.o.workload:
            return self.load_turn(depth, length, seed)
        length = max(length, REDIS_SECONDS_MIN)
        rate = self.rates.get(depth, min(20000 * depth, self.guess))
        ops = max(depth, int(length * rate))
        where = ["-s", self.path] if self.transport == "unix" else ["-p", self.port]
        status, out, messages = run(
            ["redis-benchmark", *where, "-c", 2, "-P", depth // 2, "-n", ops, "-r", self.o.keys,
             "--csv", "GET", "__rand_int__"], self.name, SILENCE_SECONDS + 20 * length)
        rows = list(csv.DictReader(line for line in out.splitlines() if line[:1] == '"'))
        if status or not rows:
            words = (out + messages).strip().splitlines() or ["redis-benchmark failed"]
            raise Stop(REMOTE, f"{self.name}: {words[-1]}")
        self.rates[depth] = rate = float(rows[0]["rps"])
        self.guess = min(4 * rate, 10**6)  # of another depth: a slow server gets fewer requests
        latency = {name: float(rows[0][name + "_latency_ms"]) * 1e6
                   for name in ("avg", "p50", "p95", "p99", "max")}
        latency["mean"] = latency.pop("avg")
        return {"ops": ops, "seconds": ops / rate, "ops_per_s": rate, "latency_ns": latency,
                "errors": 0}

    def end_of_turns(self):
        before = self.findings
        missed = self.conversation(self.misses) - self.missed
        if missed:
            self.found(f"what {missed} of its GETs asked for was not found", missed)
        return self.findings - before
