# SPDX-License-Identifier: Apache-2.0
"""Plots need matplotlib: it is found, or Debian's package is installed."""

import os
import shutil
import subprocess
import sys

from run import complain


def matplotlib_is_there():
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel,unused-import

        return True
    except ImportError:
        return False


def install_matplotlib():
    """Install Debian's package; False without it."""
    if matplotlib_is_there():
        return True
    prefix = [] if os.geteuid() == 0 else ["sudo"]
    if shutil.which("apt-get") and (not prefix or shutil.which("sudo")):
        print(f"{os.path.basename(sys.argv[0])}: installing python3-matplotlib", file=sys.stderr)
        subprocess.run([*prefix, "apt-get", "-q", "-y", "install", "--no-install-recommends",
                        "python3-matplotlib"], stdout=sys.stderr, check=False)
    if matplotlib_is_there():
        return True
    complain("there is no matplotlib, so there are no plots: install python3-matplotlib, or use "
             "--csv")
    return False
