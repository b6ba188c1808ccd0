#!/usr/bin/env python3
"""`weir doctor` beside hprof-slurp on one heap dump, and beside inflaters on its gzip: wall and CPU time, peak anonymous
memory. Contenders take turns on a file that is in the page cache; what counts are ratios of medians within a run.

    doctor.py                    makes a dump of 1.4 GB with a Java program, and another with 70,000 buffers
    doctor.py --dump FILE        a dump of your own instead of the former
    doctor.py --only plain       of plain, members, single, tenfold, buffers
    doctor.py --check            exit code 1 unless all of this holds:

3 times as fast as hprof-slurp, on plain dumps; gzip within 1.25 times what libdeflate-gunzip takes to inflate it, and within what
gzip takes (pigz and igzip, which is written in assembly, are beside them where installed); never more than 64 MiB of anonymous
memory, also on a dump ten times as large and on the one with 70,000 buffers.

`members` is gzip as `jcmd GC.heap_dump -gz` writes it, in members of 1 MiB, `single` one member. `tenfold` has the segments of
the dump ten times in a row, under ids that repeat, packed in members that end where segments do. hprof-slurp is installed by
cargo, of the version below; all files are kept in target/bench-doctor."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import measure
from measure import MIB, mib

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "target" / "bench-doctor"
WEIR = os.environ.get("WEIR_BIN", str(ROOT / "target" / "release" / "weir"))
SLURP_VERSION = "0.10.0"
# Those that are installed, and how many times the time of each is allowed; they write to nowhere.
INFLATERS = {"igzip -dc": None, "libdeflate-gunzip -c": 1.25, "pigz -dc": None, "gzip -dc": 1.0}
FASTER, MEMORY = 3.0, 64 * MIB
DUMPS = {"heap": ("1000", "2000", "20"), "buffers": ("8", "70000", "5000")}
SEGMENT, END = 0x1C, 0x2C
MEMBERS = 16 * MIB  # raw bytes of a member of the tenfold dump, or a segment more


def sample(pid, result):
    """The largest RssAnon of a process, looked at every 2 ms until it ends."""
    while True:
        now = measure.rss_anon(pid)
        result[0] = max(result[0], now)
        if result[1]:
            return
        time.sleep(0.002)


def run(command):
    """Wall and CPU seconds and peak RssAnon of a command whose output nobody reads."""
    began = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, cwd=WORK)
    peak = [0, False]
    sampler = threading.Thread(target=sample, args=(process.pid, peak))
    sampler.start()
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    peak[1] = True
    sampler.join()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {process.returncode}: {error.decode(errors='replace')[-2000:]}")
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "peak": peak[0]}


def in_turns(commands, rounds):
    """Medians of each command, all of them in each round, in changing order."""
    figures = {name: [] for name in commands}
    for number in range(rounds):
        names = list(commands)
        for name in names[number % len(names):] + names[: number % len(names)]:
            figures[name].append(run(commands[name]))
    return {name: {"wall": statistics.median(r["wall"] for r in runs), "cpu": statistics.median(r["cpu"] for r in runs),
                   "peak": max(r["peak"] for r in runs)} for name, runs in figures.items()}


def warm(path):
    """Reads a file, so that the first contender does not read it for all."""
    with open(path, "rb", buffering=0) as file:
        block = bytearray(4 * MIB)
        while file.readinto(block):
            pass


def slurp():
    program = WORK / "bin" / "hprof-slurp"
    marker = WORK / f"hprof-slurp-{SLURP_VERSION}"
    if not marker.exists():
        subprocess.run(["cargo", "install", "--quiet", "--locked", "--force", "--root", str(WORK), "--version", SLURP_VERSION,
                        "hprof-slurp"], check=True)
        marker.touch()
    return program


def make_dump(name):
    """A dump of the Java program, made once."""
    path = WORK / f"{name}.hprof"
    if path.exists():
        return path
    classes = WORK / "classes"
    subprocess.run(["javac", "-d", str(classes), str(ROOT / "bench" / "Heap.java")], check=True)
    memory = "2g" if name == "heap" else "256m"
    java = subprocess.Popen(["java", f"-Xmx{memory}", f"-Xms{memory}", "-XX:+UseParallelGC", "-cp", str(classes), "Heap", *DUMPS[name]],
                            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        if java.stdout.readline().strip() != "READY":
            raise SystemExit("the Java program did not get ready")
        part = path.with_suffix(".part")
        part.unlink(missing_ok=True)
        subprocess.run(["jcmd", str(java.pid), "GC.heap_dump", str(part)], check=True, stdout=subprocess.DEVNULL)
        part.rename(path)
    finally:
        java.kill()
        java.wait()
    return path


def packed(data, level=1):
    coder = zlib.compressobj(level, zlib.DEFLATED, 31)
    return coder.compress(data) + coder.flush()


def in_parallel(pieces, out):
    """Packs pieces on all processors and writes them in order; returns their places in the file."""
    workers = os.cpu_count() or 1
    places = []
    with ThreadPoolExecutor(workers) as pool:
        waiting = []
        for piece in pieces:
            waiting.append(pool.submit(packed, piece))
            if len(waiting) > 2 * workers:
                places.append((out.tell(), out.write(waiting.pop(0).result())))
        for each in waiting:
            places.append((out.tell(), out.write(each.result())))
    return places


def once(path, make):
    if not path.exists():
        part = path.with_suffix(".part")
        with open(part, "wb") as out:
            make(out)
        part.rename(path)
    return path


def of_members(dump):
    def make(out):
        with open(dump, "rb") as file:
            in_parallel(iter(lambda: file.read(MIB), b""), out)
    return once(WORK / f"{dump.stem}.members.gz", make)


def of_one_member(dump):
    def make(out):
        coder = zlib.compressobj(1, zlib.DEFLATED, 31)
        with open(dump, "rb") as file:
            for block in iter(lambda: file.read(4 * MIB), b""):
                out.write(coder.compress(block))
        out.write(coder.flush())
    return once(WORK / f"{dump.stem}.single.gz", make)


def tenfold(dump):
    """Front, ten times all segments, end."""
    def pieces(file, front):
        segments = bytearray()
        while head := file.read(9):
            record = head + file.read(int.from_bytes(head[5:9], "big"))
            if head[0] == SEGMENT:
                segments += record
                if len(segments) >= MEMBERS:
                    yield bytes(segments)
                    segments.clear()
            elif head[0] != END:
                front += record
        yield bytes(segments)

    def make(out):
        front = bytearray()
        body = WORK / "segments.part"
        with open(dump, "rb") as file, open(body, "w+b") as packed_body:
            while (byte := file.read(1)) != b"\0":
                front += byte
            front += byte + file.read(12)
            in_parallel(pieces(file, front), packed_body)
            out.write(packed(bytes(front)))
            for _ in range(10):
                packed_body.seek(0)
                shutil.copyfileobj(packed_body, out, 4 * MIB)
        out.write(packed(bytes([END]) + bytes(8)))
        body.unlink()
    return once(WORK / f"{dump.stem}.tenfold.gz", make)


def inflaters(path):
    found = [command.split() for command in INFLATERS if shutil.which(command.split()[0])]
    if not found:
        raise SystemExit("no inflater is installed: libdeflate-gunzip (Debian's libdeflate-tools), igzip (isal), pigz or gzip")
    return {" ".join(command): [*command, path] for command in found}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dump", type=Path, metavar="FILE")
    parser.add_argument("--only", action="append", choices=("plain", "members", "single", "tenfold", "buffers"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--report", help="a file for everything as JSON")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    wanted = options.only or ["plain", "members", "single", "tenfold", "buffers"]
    dump = options.dump.resolve() if options.dump or wanted == ["buffers"] else make_dump("heap")

    rows, wrong, report = [("input", "who", "wall s", "CPU s", "peak RssAnon MiB", "against weir")], [], {}

    def note(kind, path, figures, least=None):
        report[kind] = {"bytes": path.stat().st_size, **figures}
        ours = figures["weir"]
        for name, figure in figures.items():
            ratio = "" if name == "weir" else f"{figure['wall'] / ours['wall']:.2f} ×"
            rows.append((f"{kind}, {mib(path.stat().st_size)} MiB" if name == "weir" else "", name, f"{figure['wall']:.2f}",
                         f"{figure['cpu']:.2f}", f"{figure['peak'] / MIB:.1f}", ratio))
            if least and name != "weir" and figure["wall"] < least * ours["wall"]:
                wrong.append(f"{kind}: {figure['wall'] / ours['wall']:.2f} times as fast as {name}, not {least}")
            most = INFLATERS.get(name)
            if most and ours["wall"] > most * figure["wall"]:
                wrong.append(f"{kind}: {ours['wall'] / figure['wall']:.2f} times the time of {name}, more than {most}")
        if ours["peak"] > MEMORY:
            wrong.append(f"{kind}: {ours['peak'] / MIB:.1f} MiB of anonymous memory, more than {MEMORY // MIB}")

    if "plain" in wanted:
        commands = {"weir": [WEIR, "doctor", dump], f"hprof-slurp {SLURP_VERSION}": [slurp(), dump]}
        warm(dump)
        note("plain", dump, in_turns(commands, options.rounds), least=FASTER)
    for kind, make in (("members", of_members), ("single", of_one_member)):
        if kind in wanted:
            path = make(dump)
            warm(path)
            commands = {"weir": [WEIR, "doctor", path], **inflaters(path)}
            note(kind, path, in_turns(commands, max(1, options.rounds // 2)))
    if "tenfold" in wanted:
        path = tenfold(dump)
        warm(path)
        note("tenfold", path, in_turns({"weir": [WEIR, "doctor", path]}, 1))
    if "buffers" in wanted:
        path = make_dump("buffers")
        note("buffers", path, in_turns({"weir": [WEIR, "doctor", path], "weir --format json": [WEIR, "doctor", path, "--format", "json"]}, 1))
        peak = report["buffers"]["weir --format json"]["peak"]
        if peak > MEMORY:
            wrong.append(f"buffers, as JSON: {peak / MIB:.1f} MiB of anonymous memory, more than {MEMORY // MIB}")
    if options.report:
        Path(options.report).write_text(json.dumps(report, indent=1) + "\n")
    measure.print_table(rows)
    for line in wrong:
        print(f"FAILED {line}")
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
