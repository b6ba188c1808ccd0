#!/usr/bin/env python3
"""Does harm to a real weir process, its files and its disk, and says what it did about it.

    run.py                  every case; needs what tests/setup.sh installs, and root for mounts
    --only TEXT             cases whose id (group/name) contains TEXT; may be given several times
    --skip TEXT             leaves out cases whose id contains TEXT
    --jobs N                cases side by side (default 3: most of them wait)
    --report FILE           the outcome as JSON; --table FILE writes docs/faults.md from it
    --list                  the ids of all cases
A case that this machine does not allow is skipped with its reason. Ends with a line `N passed, N failed, N skipped`;
exit code 1 when anything failed."""

import argparse
import concurrent.futures
import importlib
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

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
sys.dont_write_bytecode = True
import brokers
import kit
from weir import Skipped

VENV = brokers.INTEROP / "venv" / "bin" / "python"


def load_cases():
    for file in sorted((HERE / "cases").glob("*.py")):
        importlib.import_module("cases." + file.stem)


def child(options):
    """Runs one case in this process and writes its outcome."""
    load_cases()
    case = kit.CASES[options.child]
    test = kit.Test(None, options.scratch, {})
    outcome = {"ok": False, "skipped": None, "error": None}
    try:
        case.function(test)
        kit.check(test.proved, "the case proved nothing")
        outcome["ok"] = True
    except Skipped as e:
        outcome["ok"] = True
        outcome["skipped"] = str(e)
    except kit.Failed as e:
        where = [f for f in traceback.extract_tb(e.__traceback__) if "/cases/" in f.filename]
        outcome["error"] = (f"[{Path(where[-1].filename).name}:{where[-1].lineno}] " if where else "") + str(e)
    except BaseException:
        outcome["error"] = traceback.format_exc()
    outcome["proved"] = test.proved
    Path(options.out).write_text(json.dumps(outcome))
    sys.stdout.flush()
    os._exit(0 if outcome["ok"] else 1)  # clients' threads are not waited for; servers die with this process


def run_case(case, options, base):
    scratch = base / "".join(c if c.isalnum() else "_" for c in case.id)  # a comma would make two directories of it
    scratch.mkdir(parents=True)
    out = scratch / "outcome.json"
    began = time.monotonic()
    process = subprocess.Popen(
        [str(VENV), __file__, "--child", case.id, "--scratch", str(scratch), "--out", str(out)],
        stdin=subprocess.DEVNULL, stdout=open(scratch / "stdout.log", "wb"), stderr=subprocess.STDOUT,
        cwd=scratch, preexec_fn=brokers.die_with_parent, start_new_session=True)
    late = False
    try:
        process.wait(kit.LIMIT)
    except subprocess.TimeoutExpired:
        late = True
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    release_mounts(scratch)
    result = {"id": case.id, "seconds": round(time.monotonic() - began, 1)}
    if out.exists():
        result.update(json.loads(out.read_text()))
    else:
        said = (scratch / "stdout.log").read_text(errors="replace")[-3000:]
        reason = f"no end within {kit.LIMIT} s" if late else f"ended with {process.returncode}"
        result.update(ok=False, skipped=None, proved=[], error=f"{reason}\n{said}")
    return result


def release_mounts(base):
    """Takes down what a case mounted and could not take down itself, the innermost first."""
    for line in reversed(Path("/proc/mounts").read_text().splitlines()):
        path = line.split()[1]
        if path.startswith(str(base) + "/"):
            subprocess.run(["umount", "-l", path], stdin=subprocess.DEVNULL)


def table(results):
    """The Markdown of docs/faults.md."""
    lines = ["# Faults", "",
             "What a weir process does when it, its files or its disk come to harm. Made by `tests/faults/run.py --table`; "
             "each line is what the suite asserts on every run, against a real process.", "",
             "| harm | case | proved |", "|---|---|---|"]
    last = None
    for r in results:
        group, name = r["id"].split("/", 1)
        what = "skipped: " + r["skipped"] if r["skipped"] else "; ".join(r["proved"])
        if not r["ok"]:
            what = "**failed**" + (f" after: {what}" if what else "")
        lines.append(f"| {group if group != last else ''} | {name} | {what.replace('|', chr(92) + '|')} |")
        last = group
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--skip", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--report")
    parser.add_argument("--table")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep the scratch directory")
    for hidden in ("--child", "--scratch", "--out"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
    if not VENV.exists():
        sys.exit("not set up: run tests/setup.sh")
    load_cases()
    cases = [c for c in kit.CASES.values()
             if (not options.only or any(o in c.id for o in options.only)) and not any(s in c.id for s in options.skip)]
    if options.list:
        for c in cases:
            print(c.id)
        return 0
    if not cases:
        sys.exit("no case matches")
    base = Path(tempfile.mkdtemp(prefix="weir-faults-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began, results = time.monotonic(), []
    try:
        cases.sort(key=lambda c: -c.seconds)  # the long ones first, so that none is left alone at the end
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for future in concurrent.futures.as_completed([pool.submit(run_case, c, options, base) for c in cases]):
                r = future.result()
                results.append(r)
                word = "skipped" if r["skipped"] else "ok     " if r["ok"] else "FAILED "
                print(f"{word} {r['id']}  {r['seconds']} s", flush=True)
                for line in [r["skipped"]] if r["skipped"] else r["proved"]:
                    print("          " + line, flush=True)
                if not r["ok"]:
                    print("        " + (r["error"] or "").strip().replace("\n", "\n        "), flush=True)
    finally:
        release_mounts(base)
        if options.keep or any(not r["ok"] for r in results):
            print(f"logs are in {base}")
        else:
            shutil.rmtree(base, ignore_errors=True)
    if options.report:
        Path(options.report).write_text(json.dumps(results, indent=1) + "\n")
    if options.table:
        order = list(kit.CASES)
        Path(options.table).write_text(table(sorted(results, key=lambda r: order.index(r["id"]))))
    skipped = sum(bool(r["skipped"]) for r in results)
    failed = sum(not r["ok"] for r in results)
    print(f"{time.monotonic() - began:.0f} s")
    print(f"{len(results) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
