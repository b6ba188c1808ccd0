"""A headless Chromium, spoken to over its own pipe: no port, no library, no browser of somebody else's."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
         "--remote-debugging-pipe")
# A machine may be busy; nothing here is judged by time.
PATIENCE = 180


class Gone(Exception):
    """The browser does not start, or ends, or does not answer: the machine's fault, not the page's."""


def find():
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    """A browser with one page. What the page asked for is in `requests`, what it complained of in `complaints`."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="weir-chromium-")
        (to_read, self.out), (self.inn, to_write) = os.pipe(), os.pipe()
        # The browser reads descriptor 3 and writes descriptor 4; these must be others than those.
        to_read, to_write = (fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (to_read, to_write))
        self.log = open(os.path.join(self.profile, "log"), "wb")
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}', program, *FLAGS, f"--user-data-dir={self.profile}/p",
             "about:blank"],
            pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.number, self.session = b"", 0, None
        self.events, self.requests, self.complaints = [], [], []
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Network", "Log", "Runtime", "Page"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.out)
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.inn)
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self, until):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.inn], [], [], max(0, until - time.monotonic()))
            more = os.read(self.inn, 1 << 20) if ready else b""
            if not more:
                said = open(os.path.join(self.profile, "log"), "rb").read()[-2000:].decode(errors="replace")
                raise Gone(f"it {'ended' if ready else 'does not answer'}: {said}")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def note(self, event):
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])
        elif event.get("method") == "Log.entryAdded":
            self.complaints.append(event["params"]["entry"]["text"])
        self.events.append(event.get("method"))

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            try:
                data = data[os.write(self.out, data):]
            except OSError as e:
                raise Gone(str(e)) from None
        until = time.monotonic() + PATIENCE
        while True:
            answer = self.message(until)
            if answer.get("id") != self.number:
                self.note(answer)
            elif "error" in answer:
                raise SystemExit(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def open(self, path, width):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.events.clear()
        self.call("Page.navigate", url=f"file://{path}")
        until = time.monotonic() + PATIENCE
        while "Page.loadEventFired" not in self.events:
            self.note(self.message(until))

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=f"(() => {{ {expression} }})()", returnByValue=True)
        if "exceptionDetails" in answer:
            raise SystemExit(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")
