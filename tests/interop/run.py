#!/usr/bin/env python3
"""Runs foreign clients, unmodified, against a broker and says what each proved.

    run.py --bootstrap HOST:PORT              against a broker that runs already
    run.py --start weir|kafka-4.4.0|...       starts that broker on a fresh directory and stops it
    --only TEXT     cases whose id (client/name) contains TEXT; may be given several times
    --skip TEXT     leaves out cases whose id contains TEXT
    --jobs N        cases side by side (default 3: most of them wait)
    --report FILE   the outcome as JSON; --table FILE writes the table of docs/clients.md from it
    --list          the ids of all cases
A case that fails is run once more, alone; that it passed at the second attempt is said, in the report too.
Ends with a line `N passed, N failed` and how many of them at the second attempt; exit code 1 when anything failed."""

import argparse
import concurrent.futures
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import brokers
import kit
import runner


# With more failures than this there is no second attempt: that is no race.
SECOND_ATTEMPTS = 3


def load_cases():
    """Every module of cases/ registers its own."""
    import importlib
    for file in sorted((kit.HERE / "cases").glob("*.py")):
        importlib.import_module("cases." + file.stem)


def start_broker(options, directory, properties=None):
    overrides = dict(o.split("=", 1) for o in options.override)
    return brokers.Broker(options.start, directory, {**brokers.NO_RETENTION, **(properties or {}), **overrides},
                          budget=options.budget)


def run_case(case, options, base, hosts, attempt=1):
    name = case.id.replace("/", "_").replace(" ", "_") + ("" if attempt == 1 else f"-{attempt}")
    own = start_broker(options, base / f"broker-{name}", case.properties) if options.start and case.properties else None
    outcome = runner.run_case(__file__, case, base / name, "--bootstrap", own.bootstrap if own else options.bootstrap,
                              "--hosts", json.dumps(hosts))
    if own:
        died = own.process.poll()
        code = own.stop()
        if died is not None or code not in (0, 143):
            outcome.update(ok=False, died=True, error=f"{outcome['error'] or ''}\nits broker ended with {code}:\n{own.tail()}")
        shutil.rmtree(own.data, ignore_errors=True)
    return {"client": case.client, "name": case.name, "attempts": attempt, **outcome}


def print_result(result):
    second = ", at the second attempt" if result["ok"] and result["attempts"] > 1 else ""
    print(f"{'ok    ' if result['ok'] else 'FAILED'} {result['client']}/{result['name']}  {result['seconds']} s{second}", flush=True)
    if not result["ok"]:
        runner.print_error(result)


class Hosts:
    """The JVMs that run Kafka's tools, one for each release, started when first needed."""

    def __init__(self, base, wanted):
        self.ports, self.processes = {}, []
        for version in wanted:
            log = open(base / f"tools-{version}.log", "wb")
            process = subprocess.Popen([*brokers.java_command(version, "512m"), "ToolHost"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=log, preexec_fn=brokers.die_with_parent)
            self.processes.append(process)
            self.ports[version] = process
        for version, process in list(self.ports.items()):
            line = process.stdout.readline()
            if not line.strip():
                raise SystemExit(f"the JVM for the tools of {version} did not start: see {base}/tools-{version}.log")
            self.ports[version] = int(line)

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


def table(report):
    """The Markdown of docs/clients.md."""
    versions, rows, order = report["versions"], {}, []
    for r in report["cases"]:
        if r["client"] not in rows:
            order.append(r["client"])
        rows.setdefault(r["client"], []).append(r)
    lines = ["# Clients", "",
             f"What unmodified clients proved against {report['broker']}. Made by `tests/interop/run.py --table`; "
             "each line is an assertion that the suite makes on every run.", "",
             "| client | case | proved |", "|---|---|---|"]
    for client in order:
        shown = client
        version = versions.get(client)
        if version:
            shown += " " + version
        for r in rows[client]:
            what = "; ".join(p.replace("|", "\\|") for p in r["proved"])
            if not r["ok"]:
                what = "**failed**" + (f" after: {what}" if what else "")
            elif r["attempts"] > 1:
                what += " (at the second attempt)"
            lines.append(f"| {shown} | {r['name']} | {what} |")
            shown = ""
    passed = sum(r["ok"] for r in report["cases"])
    lines += ["", f"{passed} of {len(report['cases'])} cases pass."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap")
    parser.add_argument("--start")
    parser.add_argument("--override", action="append", default=[], metavar="K=V", help="server property for --start")
    parser.add_argument("--budget", help="memory.budget.bytes for --start weir")
    runner.arguments(parser, "--hosts")
    options = parser.parse_args()
    load_cases()
    if options.child:
        runner.child(options, kit.Test(options.bootstrap, options.scratch, json.loads(options.hosts)))
    cases = runner.chosen(options)
    if not options.bootstrap and not options.start:
        sys.exit("--bootstrap or --start is needed")

    base = Path(tempfile.mkdtemp(prefix="weir-interop-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    broker = hosts = None
    began = time.monotonic()
    results = []
    try:
        if options.start:
            broker = start_broker(options, base / "broker")
            options.bootstrap = broker.bootstrap
            print(f"{broker.kind} serves on {broker.bootstrap} after {broker.start_seconds:.1f} s", flush=True)
        java = any(c.client.startswith(("java", "tools", "streams", "connect")) for c in cases)
        hosts = Hosts(base, brokers.KAFKA_VERSIONS if java else ())
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            running = {pool.submit(run_case, c, options, base, hosts.ports): c for c in cases}
            for future in concurrent.futures.as_completed(running):
                r = future.result()
                results.append(r)
                print_result(r)
                if not r["ok"]:
                    if broker and broker.process.poll() is not None:
                        print(f"       the broker ended with {broker.process.returncode}:\n{broker.tail()}", flush=True)
                        for f in running:
                            f.cancel()
                        break
        again = [r for r in results if not r["ok"] and not r.get("died")]
        if len(again) <= SECOND_ATTEMPTS and not (broker and broker.process.poll() is not None):
            for r in again:
                second = run_case(kit.CASES[f"{r['client']}/{r['name']}"], options, base, hosts.ports, 2)
                second["first_error"] = r["error"]
                results[results.index(r)] = second
                print_result(second)
        stopped = None
        if broker:
            if broker.process.poll() is None:
                stopped = broker.stop()
                clean = stopped in (0, 143)
                print(f"{'ok    ' if clean else 'FAILED'} broker/clean stop  exit code {stopped}")
                results.append({"client": "broker", "name": "clean stop", "ok": clean, "attempts": 1, "seconds": 0,
                                "proved": ["stops on SIGTERM after the suite"] if clean else [],
                                "error": None if clean else f"exit code {stopped}"})
    finally:
        if hosts:
            hosts.stop()
        if broker:
            broker.kill()
        if options.keep or any(not r["ok"] or r["attempts"] > 1 for r in results):
            print(f"logs are in {base}")
            if broker and not options.keep:
                shutil.rmtree(broker.data, ignore_errors=True)
        else:
            shutil.rmtree(base, ignore_errors=True)

    order = {c: i for i, c in enumerate(kit.CASES)}
    results.sort(key=lambda r: order.get(f"{r['client']}/{r['name']}", 1 << 30))
    report = {"broker": options.start or options.bootstrap, "versions": kit.installed_versions(), "cases": results,
              "seconds": round(time.monotonic() - began, 1)}
    if options.report:
        Path(options.report).write_text(json.dumps(report, indent=1) + "\n")
    if options.table:
        page = Path(options.table)
        page.parent.mkdir(parents=True, exist_ok=True)
        # What follows the table, the section of tests/upstream, stays.
        _, section, rest = page.read_text().partition("\n## ") if page.exists() else ("", "", "")
        page.write_text(table(report) + section + rest)
    passed = sum(r["ok"] for r in results)
    failed = len(results) - passed + max(0, len(cases) - len(results))
    print(f"{report['seconds']:.0f} s")
    second = [f"{r['client']}/{r['name']}" for r in results if r["attempts"] > 1]
    print(f"{passed} passed, {failed} failed; {len(second)} second attempts" + (": " + ", ".join(second) if second else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
