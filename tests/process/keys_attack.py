# SPDX-License-Identifier: Apache-2.0
"""Clients of a memory server with keys, over tcp, that speak the handshake by themselves.

usage: keys_attack.py HOST:PORT HOST:PORT KEY_FILE
       keys_attack.py SOCKET  # over shm: clients that say nothing

The second address is another memory server's with the same keys.  Proofs are computed anew from
their description in common/auth/proof.h, so both sides have to mean the same.
"""

import contextlib
import hashlib
import hmac
import os
import re
import socket
import struct
import sys

MAGIC, CHALLENGE, ANSWER, WELCOME = b"ntcp", b"ntcc", b"ntca", b"ntcw"
VERSION = 3
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
with open(os.path.join(ROOT, "common", "rpc", "rpc.h")) as lines:
    WIRE = 0x4D414E << 8 | int(re.search(r"NAM_WIRE_VERSION (\d+)u", lines.read())[1])
HAS_KEY, ASKS = 8, 4
DENIED = -5210
HALF_WAY = 1000
SILENT = 200
READ = 1


def fail(text):
    sys.exit(f"FAILED: {text}")


def read_key(path):
    with open(path) as lines:
        name, _, secret = lines.readline().split()
    return name.encode(), bytes.fromhex(secret)


def fingerprint(name, secret):
    return hashlib.blake2b(name, key=secret, digest_size=16).digest()[:8]


def proof(secret, label, *parts):
    data = b"".join(struct.pack("<I", len(part)) + part for part in (label, *parts))
    return hmac.new(secret, data, hashlib.sha512).digest()[:32]


def hello_of(client=0, incarnation=0, flags=HAS_KEY):
    return struct.pack("<IHHII", WIRE, client, incarnation, flags, 0)


def frame(magic, data, size=48, count=None):
    return magic + struct.pack("<III", VERSION, len(data) if count is None else count, 0) + \
        data.ljust(size, b"\0")


def receive(link, size):
    data = b""
    while len(data) < size:
        more = link.recv(size - len(data))
        if not more:
            return None
        data += more
    return data


class Attempt:
    """One connection, up to its challenge."""

    def __init__(self, address, hello):
        host, port = address.rsplit(":", 1)
        self.link = socket.create_connection((host, int(port)), 10)
        self.hello = hello
        self.link.sendall(frame(MAGIC, hello))
        self.challenge = None
        message = receive(self.link, 112)
        if message is None:
            fail("no answer to a hello")
        if message[:4] == CHALLENGE:
            self.challenge = message[16:16 + struct.unpack_from("<I", message, 8)[0]]
        else:
            self.welcome = message

    def answer(self, name, secret, print_of=None):
        nonce = os.urandom(16)
        start = (print_of or fingerprint(name, secret)) + nonce
        return start + proof(secret, b"nam client proof", self.hello, self.challenge, start)[:24]

    def give(self, data):
        self.link.sendall(data)
        return receive(self.link, 112)


def admitted(welcome):
    return welcome is not None and welcome[:4] == WELCOME and \
        struct.unpack_from("<I", welcome, 12)[0] == 1


def refused(what, welcome):
    """Every refusal says the same: the status, and nothing of the server."""
    if welcome is None or welcome[:4] != WELCOME or admitted(welcome):
        fail(f"{what}: {welcome}")
    size = struct.unpack_from("<I", welcome, 8)[0]
    expected = struct.pack("<Ii", WIRE, DENIED).ljust(size, b"\0")
    if size < 8 or welcome[16:16 + size] != expected or any(welcome[16 + size:]):
        fail(f"{what} hears more than others: {welcome}")


def all_of(link):
    data = b""
    try:
        while more := link.recv(4096):
            data += more
    except ConnectionError:
        pass
    return data


def guess(server, name, secret, rkey, when):
    """A READ behind the hello, the challenge or the answer, by a key that is guessed."""
    request = struct.pack("<BBHIIIQQ", READ, 0, 0, 64, rkey, 0, 0, 0)
    if when == "hello":
        host, port = server.rsplit(":", 1)
        link = socket.create_connection((host, int(port)), 10)
        link.sendall(frame(MAGIC, hello_of()) + request)
    else:
        attempt = Attempt(server, hello_of())
        link = attempt.link
        answer = frame(ANSWER, attempt.answer(name, secret)) if when == "answer" else b""
        link.sendall(answer + request)
        # The server may have closed it already.
        with contextlib.suppress(OSError):
            link.shutdown(socket.SHUT_WR)
    heard = all_of(link)
    if heard:
        fail(f"a READ by the rkey {rkey:#x} behind the {when} hears {heard}")


def stop_half_way(server, hello, name, secret):
    half_way = []
    for i in range(HALF_WAY):
        half_way.append(Attempt(server, hello) if i % 2 else None)
        if i % 2 == 0:
            host, port = server.rsplit(":", 1)
            half_way[i] = socket.create_connection((host, int(port)), 10)
            half_way[i].sendall(frame(MAGIC, hello)[:40])
    last = Attempt(server, hello)
    if not admitted(last.give(frame(ANSWER, last.answer(name, secret)))):
        fail("clients that stop half-way keep another one out")


def say_nothing(path):
    silent = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(SILENT)]
    for link in silent:
        link.connect(path)
    # It has to go, as the longest silent, and so have those before it.
    silent[SILENT // 4].settimeout(10)
    if silent[SILENT // 4].recv(1):
        fail("a silent client is spoken to")


def main(server, other, path):
    name, secret = read_key(path)
    hello = hello_of()

    stop_half_way(server, hello, name, secret)
    first = Attempt(server, hello)
    good = first.answer(name, secret)
    welcome = first.give(frame(ANSWER, good))
    if not admitted(welcome):
        fail(f"the holder of the key is refused: {welcome}")
    size = struct.unpack_from("<I", welcome, 8)[0]
    body = welcome[16:16 + size]
    if body[-32:] != proof(secret, b"nam server proof", hello, first.challenge, good[:24],
                           body[:-32]):
        fail("the server's proof is wrong")

    refused("a client without a key", Attempt(server, hello_of(flags=0)).welcome)
    refused("an answer again", Attempt(server, hello).give(frame(ANSWER, good)))
    refused("an answer of another server", Attempt(other, hello).give(frame(ANSWER, good)))
    attempt = Attempt(server, hello)
    refused("an unknown key", attempt.give(frame(ANSWER, attempt.answer(b"another", secret))))
    attempt = Attempt(server, hello)
    refused("a wrong secret", attempt.give(frame(ANSWER, attempt.answer(
        name, bytes(32), fingerprint(name, secret)))))
    # The server's own bytes, back to it.
    attempt = Attempt(server, hello)
    refused("a reflection", attempt.give(frame(ANSWER, (attempt.challenge * 2)[:48])))
    refused("the server's proof", Attempt(server, hello).give(
        frame(ANSWER, good[:24] + body[-32:][:24])))
    # A relay, between a client and a server that both are honest, changes the purpose.
    attempt = Attempt(server, hello_of(flags=HAS_KEY | ASKS))
    attempt.hello = hello
    refused("another purpose", attempt.give(frame(ANSWER, attempt.answer(name, secret))))
    # A short answer, one that says to be longer, and one that goes on.
    attempt = Attempt(server, hello)
    refused("a short answer", attempt.give(frame(ANSWER, attempt.answer(name, secret)[:40])))
    attempt = Attempt(server, hello)
    if attempt.give(frame(ANSWER, attempt.answer(name, secret), count=49)) is not None:
        fail("an answer of 49 bytes is answered")
    attempt = Attempt(server, hello)
    try:
        if attempt.give(frame(ANSWER, attempt.answer(name, secret)) + bytes(4096)) is not None:
            fail("an answer with more behind it is answered")
    except ConnectionError:
        pass

    # An id that the lead has not given to this key, at the lead and at another memory server.
    for client, incarnation in ((1, 1), (1, 60000), (4095, 1)):
        for address in (server, other):
            attempt = Attempt(address, hello_of(client, incarnation))
            refused(f"a client that claims the id {client}",
                    attempt.give(frame(ANSWER, attempt.answer(name, secret))))
    for rkey in (0, 1, 0x10000, 0xffffffff):
        for when in ("hello", "challenge", "answer"):
            guess(server, name, secret, rkey, when)
    print(f"the holder of a key came, beside {HALF_WAY} clients that did not go on")


if len(sys.argv) == 2:
    say_nothing(sys.argv[1])
else:
    main(*sys.argv[1:])
