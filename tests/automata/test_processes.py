"""Workers end with the process that started them."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

PROGRAM = """
import os, time
from automata.processes import spawned_workers
if __name__ == "__main__":
    with spawned_workers(1, abs, (1,)) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, {busy}).result()
        time.sleep(60)
"""


@pytest.mark.parametrize("busy", [0, 60], ids=["idle", "busy"])
def test_workers_end_with_a_killed_process(busy: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(busy=busy)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
    give_up = time.monotonic() + 30
    while psutil.pid_exists(worker):
        assert time.monotonic() < give_up
        time.sleep(0.05)
