"""In the place of vLLM's server: answers /health, and notes how it was started.

STAND_IN_NOTES: file for its arguments, environment and process ids. STAND_IN_LOADING_S: seconds
until it listens. STAND_IN_LIFE_S: seconds until it ends by itself with code 7.
"""

import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    # as the real one has workers, which outlive it when it is killed
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    notes = {"arguments": sys.argv[1:], "environment": dict(os.environ)}
    notes |= {"pid": os.getpid(), "worker": worker.pid}
    with open(os.environ["STAND_IN_NOTES"] + ".new", "w") as file:
        json.dump(notes, file)
    os.replace(os.environ["STAND_IN_NOTES"] + ".new", os.environ["STAND_IN_NOTES"])
    if "STAND_IN_LIFE_S" in os.environ:
        life = float(os.environ["STAND_IN_LIFE_S"])
        threading.Timer(life, lambda: os._exit(7)).start()
    time.sleep(float(os.environ.get("STAND_IN_LOADING_S", "0")))
    port = int(sys.argv[sys.argv.index("--port") + 1])
    ThreadingHTTPServer(("127.0.0.1", port), Health).serve_forever()
