# SPDX-License-Identifier: Apache-2.0
"""The analytic model of Ziegler et al. (SIGMOD 2019), section 2.3, tables 1 and 2.

The bandwidth of the memory servers, divided by the bytes of a query.  A node has P / 3K entries
(K = 8).  Height is rounded up, as in table 1.  If a coarse-grained index is skewed, one memory
server carries all of it.  The model knows neither round trips nor processors.  It does not cover
hybrid indexes, inserts and caches.
"""

import math

NODE_BYTES = 1024
KEY_BYTES = 8


def height(leaves, fanout):
    return math.ceil((math.log(leaves) / math.log(fanout) if leaves > 1 else 1) - 1e-9)


def model_of(*, fine, hashed, skewed, memservers, bytes_per_s, keys, selectivity, amplification):
    """(bytes/s of the memory servers, bytes per operation, operations/s); selectivity 0: points.

    amplification: the z of the paper, pages that a skewed query reads for one.
    """
    fanout = NODE_BYTES / (3 * KEY_BYTES)
    leaves = keys / fanout
    z = amplification if skewed else 1
    levels = height(leaves if fine or skewed else leaves / memservers, fanout)
    if selectivity > 0:
        pages = levels * (memservers if hashed else 1) + z * selectivity * leaves
    else:
        pages = levels + (z if z > 1 else 0)
    total = bytes_per_s * (1 if skewed and not fine else memservers)
    return total, pages * NODE_BYTES, total / (pages * NODE_BYTES)


def port_bytes_per_s(ports, memservers_per_machine, bytes_per_ns):
    """A memory server's share of its machine's ports: at most one port."""
    return bytes_per_ns * 1e9 * min(1, ports / memservers_per_machine)


def shares(memservers):
    """Per cent of skewed data on each memory server: the paper's for 2 and 4; 80 on the first."""
    if memservers < 2:
        return ""
    if memservers == 4:
        return "80,12,5,3"
    total = sum(1 / i**2 for i in range(1, memservers))
    return ",".join(["80"] + [f"{20 / total / i**2:.5g}" for i in range(1, memservers)])
