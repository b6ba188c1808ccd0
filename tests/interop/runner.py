"""Runs registered cases, each in a process of its own that takes whatever it started along when it ends."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import brokers
import kit

VENV = brokers.INTEROP / "venv" / "bin" / "python"


def run_to_end(command, log, limit, cwd=None, env=None):
    """Runs a command with its output in `log`, and kills all that is left of it at its end or after `limit` seconds.
    Returns its exit code, None when it was late."""
    with open(log, "wb") as out:
        process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                   cwd=cwd, env={**os.environ, **(env or {})}, preexec_fn=brokers.die_with_parent, start_new_session=True)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    return code


def arguments(parser, *hidden):
    """The flags that every suite of cases has; `hidden` ones are for its own processes."""
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--skip", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--report")
    parser.add_argument("--table")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep the scratch directory")
    for name in ("--child", "--scratch", "--out", *hidden):
        parser.add_argument(name, help=argparse.SUPPRESS)


def chosen(options):
    """The cases to run, the long ones first, so that none is left alone at the end. Prints them for --list and ends."""
    cases = [c for c in kit.CASES.values()
             if (not options.only or any(o in c.id for o in options.only)) and not any(s in c.id for s in options.skip)]
    if options.list:
        for c in cases:
            print(c.id)
        sys.exit(0)
    if not cases:
        sys.exit("no case matches")
    if not VENV.exists():
        sys.exit("not set up: run tests/setup.sh")
    return sorted(cases, key=lambda c: -c.seconds)


def child(options, test):
    """Runs the case of --child in this process, writes its outcome and ends."""
    outcome = {"ok": False, "skipped": None, "error": None}
    try:
        kit.CASES[options.child].function(test)
        kit.check(test.proved, "the case proved nothing")
        outcome["ok"] = True
    except kit.Skipped as e:
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


def run_case(script, case, scratch, *arguments):
    """Runs `script --child` for a case in the directory `scratch`, and returns its outcome."""
    scratch.mkdir(parents=True)
    out, log = scratch / "outcome.json", scratch / "stdout.log"
    began = time.monotonic()
    code = run_to_end([VENV, script, "--child", case.id, "--scratch", scratch, "--out", out, *arguments], log, kit.LIMIT, scratch)
    result = {"seconds": round(time.monotonic() - began, 1)}
    if out.exists():
        result.update(json.loads(out.read_text()))
    else:
        reason = f"no end within {kit.LIMIT} s" if code is None else f"ended by itself with {code}"
        said = log.read_text(errors="replace")[-3000:]
        result.update(ok=False, skipped=None, proved=[], error=f"{reason}\n{said}")
    return result


def print_error(result):
    print("        " + (result["error"] or "").strip().replace("\n", "\n        "), flush=True)
