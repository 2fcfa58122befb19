"""The private PostgreSQL server: it goes when whoever started it goes, however that is."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# says where the server's files are, then waits to be killed
_OWNER = """
import sys
from viewkeep.bench.server import private_server
with private_server() as server:
    print(server.data, flush=True)
    sys.stdin.read()
"""


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_does_not_outlive_its_owner(how: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        data = Path(owner.stdout.readline().strip())
        server = os.pidfd_open(int((data / "postmaster.pid").read_text().split()[0]))
        owner.send_signal(how)
    try:
        # readable when the process has ended
        ended, _, _ = select.select([server], [], [], 60)
        assert ended, "the server is still there"
    finally:
        os.close(server)
