#!/usr/bin/env python3
"""Runs foreign clients, unmodified, against a broker and says what each proved.

    run.py --bootstrap HOST:PORT              against a broker that runs already
    run.py --start weir|kafka-4.4.0|...       starts that broker on a fresh directory and stops it
    --only TEXT     cases whose id (client/name) contains TEXT; may be given several times
    --skip TEXT     leaves out cases whose id contains TEXT
    --jobs N        cases side by side (default 3: most of them wait)
    --report FILE   the outcome as JSON; --table FILE writes the table of docs/clients.md from it
    --list          the ids of all cases
Ends with a line `N passed, N failed`; exit code 1 when anything failed."""

import argparse
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import brokers
import kit

VENV = brokers.INTEROP / "venv" / "bin" / "python"


def load_cases():
    """Every module of cases/ registers its own."""
    import importlib
    for file in sorted((kit.HERE / "cases").glob("*.py")):
        importlib.import_module("cases." + file.stem)


def child(options):
    """Runs one case in this process and writes its outcome."""
    load_cases()
    case = kit.CASES[options.child]
    hosts = json.loads(options.hosts)
    test = kit.Test(options.bootstrap, options.scratch, hosts)
    outcome = {"ok": False, "error": None}
    try:
        case.function(test)
        kit.check(test.proved, "the case proved nothing")
        outcome["ok"] = True
    except kit.Failed as e:
        frame = traceback.extract_tb(e.__traceback__)
        where = [f for f in frame if "/cases/" in f.filename]
        outcome["error"] = (f"[{Path(where[-1].filename).name}:{where[-1].lineno}] " if where else "") + str(e)
    except BaseException:
        outcome["error"] = traceback.format_exc()
    outcome["proved"] = test.proved
    Path(options.out).write_text(json.dumps(outcome))
    sys.stdout.flush()
    os._exit(0 if outcome["ok"] else 1)  # clients' threads are not waited for


def run_case(case, options, base, hosts):
    scratch = base / case.id.replace("/", "_").replace(" ", "_")
    scratch.mkdir(parents=True)
    out = scratch / "outcome.json"
    began = time.monotonic()
    process = subprocess.Popen(
        [str(VENV), __file__, "--child", case.id, "--bootstrap", options.bootstrap, "--scratch", str(scratch),
         "--out", str(out), "--hosts", json.dumps(hosts)],
        stdin=subprocess.DEVNULL, stdout=open(scratch / "stdout.log", "wb"), stderr=subprocess.STDOUT,
        cwd=scratch, preexec_fn=brokers.die_with_parent, start_new_session=True)
    late = False
    try:
        process.wait(kit.LIMIT)
    except subprocess.TimeoutExpired:
        late = True
    try:
        os.killpg(process.pid, signal.SIGKILL)  # whatever it started goes with it
    except ProcessLookupError:
        pass
    process.wait()
    result = {"client": case.client, "name": case.name, "seconds": round(time.monotonic() - began, 1)}
    if out.exists():
        result.update(json.loads(out.read_text()))
    else:
        said = (scratch / "stdout.log").read_text(errors="replace")[-3000:]
        reason = f"no end within {kit.LIMIT} s" if late else f"ended by itself with {process.returncode}"
        result.update(ok=False, proved=[], error=f"{reason}\n{said}")
    return result


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
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--skip", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--report")
    parser.add_argument("--table")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep the scratch directory")
    for hidden in ("--child", "--scratch", "--out", "--hosts"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
    load_cases()
    cases = [c for c in kit.CASES.values()
             if (not options.only or any(o in c.id for o in options.only)) and not any(s in c.id for s in options.skip)]
    if options.list:
        for c in cases:
            print(c.id)
        return 0
    if not cases:
        sys.exit("no case matches")
    if not options.bootstrap and not options.start:
        sys.exit("--bootstrap or --start is needed")
    if not VENV.exists():
        sys.exit("not set up: run tests/setup.sh")

    base = Path(tempfile.mkdtemp(prefix="weir-interop-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    broker = hosts = None
    began = time.monotonic()
    results = []
    try:
        if options.start:
            broker = brokers.Broker(options.start, base / "broker", dict(o.split("=", 1) for o in options.override),
                                    budget=options.budget)
            options.bootstrap = broker.bootstrap
            print(f"{broker.kind} serves on {broker.bootstrap} after {broker.start_seconds:.1f} s", flush=True)
        java = any(c.client.startswith(("java", "tools", "streams", "connect")) for c in cases)
        hosts = Hosts(base, brokers.KAFKA_VERSIONS if java else ())
        # The long ones first, so that none is left alone at the end.
        cases.sort(key=lambda c: -c.seconds)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            running = {pool.submit(run_case, c, options, base, hosts.ports): c for c in cases}
            for future in concurrent.futures.as_completed(running):
                r = future.result()
                results.append(r)
                word = "ok    " if r["ok"] else "FAILED"
                print(f"{word} {r['client']}/{r['name']}  {r['seconds']} s", flush=True)
                if not r["ok"]:
                    print("       " + (r["error"] or "").strip().replace("\n", "\n       "), flush=True)
                    if broker and broker.process.poll() is not None:
                        print(f"       the broker ended with {broker.process.returncode}:\n{broker.tail()}", flush=True)
                        for f in running:
                            f.cancel()
                        break
        stopped = None
        if broker:
            if broker.process.poll() is None:
                stopped = broker.stop()
                clean = stopped in (0, 143)
                print(f"{'ok    ' if clean else 'FAILED'} broker/clean stop  exit code {stopped}")
                results.append({"client": "broker", "name": "clean stop", "ok": clean, "seconds": 0,
                                "proved": ["stops on SIGTERM after the suite"] if clean else [],
                                "error": None if clean else f"exit code {stopped}"})
    finally:
        if hosts:
            hosts.stop()
        if broker:
            broker.kill()
        if options.keep or any(not r["ok"] for r in results):
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
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
