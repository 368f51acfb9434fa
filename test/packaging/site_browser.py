# SPDX-License-Identifier: BSL-1.0
"""Opens twenty pages of the site in Chromium, at the widths of a telephone and of a desktop, and checks that no page reports an
error, scrolls sideways or misses a file, that its links lead somewhere, and that the search finds matmul.

usage: site_browser.py SITE_FOLDER [--screenshots FOLDER]     SITE_FOLDER is the output of docs/site/build.py

Skipped (77) without Chromium.
"""
import argparse
import base64
import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

PAGES = """index contents tutorial/first-model tutorial/cluster how-to/failures how-to/clusters how-to/all-reduce how-to/optimizers
           how-to/gradients reference/operations reference/names reference/accuracy reference/errors explanation/design
           explanation/benchmarks api/index api/matmul api/session api/mistakes api/group-ops""".split()
WIDTHS = (390, 1280)

arguments = argparse.ArgumentParser()
arguments.add_argument("site", type=pathlib.Path)
arguments.add_argument("--screenshots", type=pathlib.Path)
given = arguments.parse_args()
browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
if not browser:
    print("skipped: no Chromium")
    sys.exit(77)


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Chromium:
    """One tab, controlled by the DevTools protocol over two pipes."""

    def __init__(self, profile):
        to_browser, self.out = os.pipe()
        self.back, from_browser = os.pipe()

        def connect():  # the browser reads from 3 and writes to 4
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.process = subprocess.Popen(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=connect, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        target = next(each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def message(self):
        while b"\0" not in self.rest:
            piece = os.read(self.back, 1 << 20)
            if not piece:
                sys.exit("Chromium has ended")
            self.rest += piece
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.out, json.dumps(request).encode() + b"\0")
        while (message := self.message()).get("id") != self.number:
            self.events.append(message)
        if "error" in message:
            sys.exit(f"{method}: {message['error']}")
        return message["result"]

    def open(self, address, width):
        """The faults of a page, after it has loaded."""
        self.events = []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())
        found = self.evaluate("[document.documentElement.scrollWidth, innerWidth, visualViewport.width]")
        if found[0] > width:
            yield f"is {found[0]} pixels wide"
        for event in self.events:
            what, about = event.get("method"), event.get("params", {})
            if what == "Runtime.exceptionThrown":
                yield f"throws {about['exceptionDetails'].get('text')}"
            elif what == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
                yield f"reports {about['entry']['text']}: {about['entry'].get('url')}"
            elif what == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
                yield f"prints {about['args']}"
            elif what == "Network.loadingFailed":
                yield f"misses a file: {about['errorText']}"

    def evaluate(self, code):
        result = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            sys.exit(f"{code}: {result['exceptionDetails']}")
        return result["result"].get("value")


def lines_of_faults(site):
    versions = json.loads((given.site / "versions.js").read_text().removeprefix("versions = ").strip().rstrip(";"))
    links = set()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        chromium = Chromium(profile)
        for name in PAGES:
            address = f"{site}/{versions[0]}/{name}.html"
            for width in WIDTHS:
                yield from (f"{name} at {width}: {fault}" for fault in chromium.open(address, width))
                if given.screenshots:
                    given.screenshots.mkdir(parents=True, exist_ok=True)
                    picture = chromium.call("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"]
                    (given.screenshots / f"{name.replace('/', '-')}-{width}.png").write_bytes(base64.b64decode(picture))
            links |= set(chromium.evaluate("[...document.querySelectorAll('a[href], img')].map(each => (each.href || each.src).replace(/#.*/, ''))"))
        search = """(async () => { const field = document.getElementById("search"); field.focus(); field.value = "matmul";
            field.dispatchEvent(new Event("input"));
            for (let i = 0; i < 100 && !document.querySelector("#results a"); ++i) await new Promise(done => setTimeout(done, 50));
            return document.querySelector("#results a")?.href; })()"""
        first = chromium.evaluate(search)
        if not first or not first.endswith("/api/matmul.html"):
            yield f"the search for matmul finds {first}"
        if given.screenshots:
            picture = chromium.call("Page.captureScreenshot", format="png")["data"]
            (given.screenshots / "search.png").write_bytes(base64.b64decode(picture))
        chromium.call("Page.navigate", url=f"{site}/index.html")
        time.sleep(1)
        if not (at := chromium.evaluate("location.href")).endswith(f"/{versions[0]}/index.html"):
            yield f"the first page leads to {at}"
        chromium.session = None
        chromium.call("Browser.close")
        chromium.process.wait(10)
    folder = urllib.parse.urlsplit(site)
    for link in sorted(links):
        if urllib.parse.urlsplit(link).netloc == folder.netloc:
            try:
                urllib.request.urlopen(urllib.request.Request(link, method="HEAD"), timeout=10).close()
            except urllib.error.HTTPError as error:
                yield f"{link}: {error}"
    if len(links) < 500:
        yield f"only {len(links)} links were found"


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=given.site))
threading.Thread(target=server.serve_forever, daemon=True).start()
faults = list(lines_of_faults(f"http://127.0.0.1:{server.server_port}"))
server.shutdown()
print("\n".join(faults) or f"{len(PAGES)} pages are right at {' and '.join(map(str, WIDTHS))} pixels")
sys.exit(bool(faults))
