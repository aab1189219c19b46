#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""query.py PROMETHEUS DASHBOARD SERVERS: every expression of the dashboard has an answer.

PROMETHEUS is HOST:PORT.  Waits until it has scraped so many memory servers three times.  Prints a
line for each expression and a last one with the counts; 0 if none failed.
"""
import json
import sys
import time
import urllib.parse
import urllib.request

TIMEOUT_S = 60


def ask(prometheus, expression):
    """The series of an instant query."""
    url = f"http://{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(url, timeout=10) as answer:
        body = json.load(answer)
    if body["status"] != "success":
        raise ValueError(body)
    return body["data"]["result"]


def wait(prometheus, servers):
    """Rates need some scrapes of each memory server."""
    until = time.monotonic() + TIMEOUT_S
    scraped = []
    while time.monotonic() < until:
        try:
            scraped = ask(prometheus, "count_over_time(nam_uptime_seconds[1m]) >= 3")
        except OSError:
            pass
        if len(scraped) == servers:
            return
        time.sleep(0.2)
    sys.exit(f"after {TIMEOUT_S} s Prometheus has scraped {len(scraped)} of {servers} servers")


def expressions(dashboard):
    """Title and expression of each target, for all servers, over the last 10 s."""
    with open(dashboard, encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    for panel in panels:
        for target in panel["targets"]:
            text = target["expr"].replace("$server", ".*").replace("$__rate_interval", "10s")
            yield panel["title"], text


def main():
    """Query all of them."""
    prometheus, dashboard, servers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    passed = failed = 0
    wait(prometheus, servers)
    for title, expression in expressions(dashboard):
        series = ask(prometheus, expression)
        if series:
            passed += 1
            print(f"passed   {title}: {len(series)} series")
        else:
            failed += 1
            print(f"failed   {title}: no series for {expression}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed or not passed


if __name__ == "__main__":
    sys.exit(main())
