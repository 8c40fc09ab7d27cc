"""A service in a process of its own, for tests that need the real thing."""

import contextlib
import os
import re
import subprocess
import sys
import threading


class Service:
    """A running `linkdist serve`."""

    def __init__(self, process, url):
        self.process, self.url = process, url
        self.port = int(url.rpartition(":")[2])

    def stop(self):
        """SIGTERM; gives the exit status."""
        self.process.terminate()
        return self.process.wait(timeout=60)


PROGRAM = (sys.executable, "-m", "linkdist.cli.main")


@contextlib.contextmanager
def serving(model, *options, program=PROGRAM):
    """Start a service on a free port, and stop it at the end."""
    asked = [*program, "serve", str(model), "--port", "0", *options]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    process = subprocess.Popen(asked, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"Serving .* at (http\S+)", line):
                break
        else:
            raise AssertionError("".join(lines))
        rest = threading.Thread(target=process.stderr.read)  # a full pipe would block it
        rest.start()
        yield Service(process, found[1])
        process.kill()
        rest.join()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
