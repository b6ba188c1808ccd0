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
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
sys.dont_write_bytecode = True
import kit
import runner


def load_cases():
    for file in sorted((HERE / "cases").glob("*.py")):
        importlib.import_module("cases." + file.stem)


def run_case(case, base):
    scratch = base / "".join(c if c.isalnum() else "_" for c in case.id)  # a comma would make two directories of it
    result = {"id": case.id, **runner.run_case(__file__, case, scratch)}
    release_mounts(scratch)
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
    runner.arguments(parser)
    options = parser.parse_args()
    load_cases()
    if options.child:
        runner.child(options, kit.Test(None, options.scratch, {}))
    cases = runner.chosen(options)
    base = Path(tempfile.mkdtemp(prefix="weir-faults-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began, results = time.monotonic(), []
    try:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for future in concurrent.futures.as_completed([pool.submit(run_case, c, base) for c in cases]):
                r = future.result()
                results.append(r)
                word = "skipped" if r["skipped"] else "ok     " if r["ok"] else "FAILED "
                print(f"{word} {r['id']}  {r['seconds']} s", flush=True)
                for line in [r["skipped"]] if r["skipped"] else r["proved"]:
                    print("          " + line, flush=True)
                if not r["ok"]:
                    runner.print_error(r)
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
