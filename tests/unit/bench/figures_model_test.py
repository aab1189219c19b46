#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The model of Ziegler et al., section 2.3, against its table 1; shares of skewed data."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["NAM_SOURCE_DIR"], "bench", "figures"))

# pylint: disable=wrong-import-position
from model import model_of, port_bytes_per_s, shares

PAGE = 1024
LEAVES = 2343750  # 100 M of 8-byte keys, 42.67 in a node: "approx. 2.3M"
BANDWIDTH = 50e9


def model(fine, hashed, skewed, selectivity, amplification, keys=100e6):
    made = model_of(fine=fine, hashed=hashed, skewed=skewed, memservers=4, bytes_per_s=BANDWIDTH,
                    keys=keys, selectivity=selectivity, amplification=amplification)
    assert abs(made[2] * made[1] / made[0] - 1) < 1e-12
    return made


class Model(unittest.TestCase):
    def near(self, value, wanted):
        self.assertLess(abs(value / wanted - 1), 1e-9)

    def test_point_uniform_takes_a_page_a_level(self):
        for fine in (True, False):
            made = model(fine, False, False, 0, 10)
            self.near(made[1], 4 * PAGE)
            self.near(made[0], 4 * BANDWIDTH)

    def test_point_tree_on_each_server_may_be_lower(self):
        # 3.5 M leaves need a fifth level; a quarter of them does not.  Skewed, most are in one.
        self.near(model(True, False, False, 0, 1, 150e6)[1], 5 * PAGE)
        self.near(model(False, False, False, 0, 1, 150e6)[1], 4 * PAGE)
        self.near(model(False, False, True, 0, 1, 150e6)[1], 5 * PAGE)

    def test_point_skewed_reads_z_pages_more(self):
        self.near(model(True, False, True, 0, 10)[1], 14 * PAGE)
        self.near(model(False, False, True, 0, 10)[1], 14 * PAGE)
        self.near(model(True, False, True, 0, 1)[1], 4 * PAGE)

    def test_range_uniform_reads_its_share_of_the_leaves(self):
        self.near(model(True, False, False, 0.001, 10)[1], (4 + 0.001 * LEAVES) * PAGE)
        self.near(model(False, False, False, 0.001, 10)[1], (4 + 0.001 * LEAVES) * PAGE)
        # By hash each of four servers descends its tree.
        self.near(model(False, True, False, 0.001, 10)[1], (16 + 0.001 * LEAVES) * PAGE)

    def test_range_skewed_coarse_has_one_memory_server(self):
        self.near(model(True, False, True, 0.001, 10)[1], (4 + 0.01 * LEAVES) * PAGE)
        self.near(model(True, False, True, 0.001, 10)[0], 4 * BANDWIDTH)
        self.near(model(False, False, True, 0.001, 10)[0], BANDWIDTH)
        self.near(model(False, True, True, 0.001, 10)[0], BANDWIDTH)

    def test_port_is_a_share_of_the_ports_of_a_machine(self):
        self.near(port_bytes_per_s(2, 2, 6.8), 6.8e9)
        self.near(port_bytes_per_s(2, 1, 6.8), 6.8e9)
        self.near(port_bytes_per_s(2, 4, 6.8), 3.4e9)

    def test_shares_of_any_number_of_servers_are_a_hundred(self):
        self.assertEqual(shares(4), "80,12,5,3")
        self.assertEqual(shares(2), "80,20")
        self.assertEqual(shares(1), "")
        for memservers in range(2, 65):
            each = [float(share) for share in shares(memservers).split(",")]
            self.assertEqual(len(each), memservers)
            self.assertGreater(min(each), 0)
            self.assertLess(abs(sum(each) - 100), 0.001)


if __name__ == "__main__":
    unittest.main()
