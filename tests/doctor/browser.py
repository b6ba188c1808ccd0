#!/usr/bin/env python3
"""Opens the page that `weir doctor --format html` makes in headless Chromium and holds what is seen there against the JSON of
the same evidence: charts in proportion, numbers equal, nothing loaded, nothing run, both languages, narrow and printed.

    browser.py EVIDENCE...  any files and folders with a heap dump among them; WEIR_BIN names the binary
Without Chromium the checks fail, unless WEIR_NO_BROWSER=1 says that they may be left out."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import devtools

ROOT = Path(__file__).resolve().parents[2]
WEIR = os.environ.get("WEIR_BIN", str(ROOT / "target" / "release" / "weir"))
HOSTILE = "<img src=x onerror=alert(1)>\"'\u202e.properties"

# Everything that could load or run something.
ACTIVE = """
const bad = [];
for (const element of document.querySelectorAll("*")) {
  if (["SCRIPT", "IMG", "IFRAME", "OBJECT", "EMBED", "FORM"].includes(element.tagName.toUpperCase())) bad.push(element.tagName);
  for (const {name, value} of element.attributes) {
    if (name.startsWith("on") || (["src", "href", "srcset", "action"].includes(name) && !/^(#|data:,$)/.test(value)))
      bad.push(name + "=" + value);
  }
}
return bad;"""
RECTS = """
return [...document.querySelectorAll("%s")].map(rect => ({
  bytes: Number(rect.dataset.bytes), width: rect.getBoundingClientRect().width, kind: rect.getAttribute("class"),
  whole: rect.ownerSVGElement.getBoundingClientRect().width}));"""
ROWS = """
return [...document.querySelectorAll("%s tbody tr")].map(row => [...row.children].map(cell => {
  const copy = cell.cloneNode(true);
  copy.querySelectorAll("small").forEach(small => small.remove());
  return copy.textContent.trim();
}));"""


def number(text):
    return int(text.replace(",", ""))


def proportional(rects):
    """Whether widths follow the bytes, to less than a pixel; all that is a hundredth of a pixel wide is drawn."""
    largest = max(rects, key=lambda rect: rect["bytes"], default=None)
    if not largest or not largest["bytes"]:
        return not rects
    scale = largest["width"] / largest["bytes"]
    expected = [rect["bytes"] * scale for rect in rects]
    return scale > 0 and all(abs(rect["width"] - width) < 0.75 and (rect["width"] > 0 or width < 0.01)
                             for rect, width in zip(rects, expected))


def chinese(value, path=""):
    """Texts of a Chinese report that are not Chinese, with their place in the JSON."""
    said = ("title", "cause", "action", "caution", "what", "why", "text")
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in said and isinstance(inner, str) and not re.search("[\u4e00-\u9fff]", inner):
                yield f"{path}.{key}: {inner}"
            yield from chinese(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from chinese(inner, f"{path}[{index}]")


def charts(page, dump, check):
    fill = page.value(RECTS % ".fill:first-of-type .chart rect[data-bytes]")
    check("the limit is drawn", fill and sum(rect["width"] for rect in fill) > fill[0]["whole"] / 2, fill)
    check("in proportion", proportional(fill), fill)
    kinds = {line["kind"]: line["bytes"] for line in dump["lines"] if line["books"] == "direct" and line["bytes"]}
    drawn = [(rect["kind"].split("k-")[1], rect["bytes"]) for rect in fill]
    check("with the bytes of the account", all(each in drawn for each in kinds.items()), (drawn, kinds))
    left = dump["limit_bytes"] - sum(kinds.values())
    check("and what is left", left <= 0 or sum(bytes for kind, bytes in drawn if kind in ("left", "missing")) == left, (drawn, left))
    groups = [group for group in dump["groups"] if group["buffers"]]
    sums = page.value(RECTS % ".threads .sum")
    check("each group has its bar", [rect["bytes"] for rect in sums] == [group["sum_bytes"] for group in groups], sums)
    check("as wide as its bytes", sums and proportional(sums) and abs(sums[0]["width"] - sums[0]["whole"]) < 0.75, sums)


def tables(page, report, check):
    dump = report["dumps"][0]
    rows = page.value(ROWS % ".memory .scroll:first-of-type")
    order = [line for pool in ("direct", "none", "mapped") for line in dump["lines"] if line["books"] == pool]
    expected = [(line["bytes"], line["buffers"]) for line in order] + ([(0, dump["views"])] if dump["views"] else [])
    check("the account's figures are those of the JSON", [(number(row[1]), number(row[2])) for row in rows] == expected, rows)
    rows = page.value(ROWS % ".threads")
    groups = [group for group in dump["groups"] if group["buffers"]]
    fields = ("min_bytes", "p50_bytes", "p95_bytes", "max_bytes", "sum_bytes")
    expected = [[group["name"], f"{group['threads_with_bytes']:,} of {group['threads']:,}", *(group[field] for field in fields)]
                for group in groups]
    seen = [[row[0], row[1], *(number(cell) for cell in row[2:7])] for row in rows]
    check("so are those of the groups", seen == expected, (seen, expected))
    rows = page.value(ROWS % ".largest")
    largest = sorted((each["capacity_bytes"] for each in dump["allocations"] if each["kind"] not in ("mapped", "image")),
                     reverse=True)
    check("and of the largest buffers", [number(row[1]) for row in rows] == largest[:len(rows)] and rows, rows)
    seen = page.value("return [...document.querySelectorAll('.finding')].map(finding => [finding.dataset.id, "
                      "...[...finding.querySelectorAll('.effect b')].map(effect => effect.textContent)])")
    expected = [[finding["id"], *(f"{remedy['frees_bytes']:,}" for remedy in finding["remedies"] if remedy["frees_bytes"])]
                for finding in report["findings"]]
    check("every finding and every effect is there", seen == expected, (seen, expected))


def other_pages(page, weir, evidence, base, check):
    """The pages of a comparison and of a verification, against the JSON of the same."""
    def both(name, *arguments):
        answers = []
        for form in ("json", "html"):
            file = base / f"{name}.{form}"
            done = subprocess.run([weir, "doctor", *arguments, "--format", form, "-o", str(file)], timeout=300)
            answers.append(done.returncode)
        check(f"{name}: page and JSON have one exit code", answers[0] == answers[1] in (0, 3, 4), answers)
        page.open(base / f"{name}.html", 1280)
        check(f"{name}: the page has no script and nothing that loads", page.value(ACTIVE) == [], page.value(ACTIVE))
        return json.loads((base / f"{name}.json").read_text())

    found = both("comparison", "--compare", str(evidence), str(evidence))
    rows = [[number(cell.replace("+", "")) for cell in row[1:]] for row in page.value(ROWS % "#figures")]
    expected = [[row["before"], row["after"], row["change"]] for row in found["figures"]]
    check("comparison: every figure is that of the JSON", rows == expected and rows, (rows, expected))
    bars = page.value(RECTS % "#groups .before") + page.value(RECTS % "#groups .sum")
    sums = {row["sum_bytes"][side] for row in found["groups"] for side in ("before", "after")}
    check("comparison: bars are as wide as their bytes", bars and proportional(bars) and {bar["bytes"] for bar in bars} <= sums, bars)
    found = both("verification", "--verify", str(evidence))
    seen = page.value("return [...document.querySelectorAll('.finding')].map(each => [each.dataset.id, each.dataset.outcome])")
    check("verification: every check has its outcome", seen == [[row["id"], row["outcome"]] for row in found["checks"]], seen)
    return {f"file://{base / name}.html" for name in ("comparison", "verification")}


def run(evidence, check, weir=WEIR):
    program = devtools.find()
    if not program:
        allowed = os.environ.get("WEIR_NO_BROWSER") == "1"
        print("skipped: the page in a browser, for there is no chromium (WEIR_NO_BROWSER=1)" if allowed else
              "chromium is missing: tests/setup.sh installs it")
        return allowed or check("there is a browser", False, "no chromium")
    base = Path(tempfile.mkdtemp(prefix="weir-page-"))
    try:
        # A file whose name wants to be markup.
        hostile = base / HOSTILE
        hostile.write_text("num.network.threads=<script>alert(1)</script>\nlisteners=PLAINTEXT://:9092\n")

        def write(form, language):
            file = base / f"report.{language}.{form}"
            subprocess.run([weir, "doctor", *map(str, evidence), str(hostile), "--format", form, "--lang", language, "-o",
                            str(file)], check=True, timeout=300)
            return file

        report = json.loads(write("json", "en").read_text())
        with devtools.Chromium(program) as page:
            file = write("html", "en")
            page.open(file, 1280)
            check("the page has no script and nothing that loads", page.value(ACTIVE) == [], page.value(ACTIVE))
            first = report["findings"][0]
            if first["severity"] != "note":
                check("its headline is the gravest finding", page.value("return document.querySelector('h1').textContent")
                      == first["title"])
            charts(page, report["dumps"][0], check)
            tables(page, report, check)
            shown = page.value("return document.body.innerText")
            check("a hostile name is shown as it is", HOSTILE.replace("\u202e", "⟨U+202E⟩") in shown, shown[-2000:])
            light = page.value("return getComputedStyle(document.body).backgroundColor")
            page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
            dark = page.value("return getComputedStyle(document.body).backgroundColor")
            check("it is dark where dark is wanted", light != dark, light)
            page.call("Emulation.setEmulatedMedia", features=[])
            for width in (1280, 390):
                page.open(file, width)
                wide = page.value("return document.documentElement.scrollWidth")
                check(f"it fits {width} pixels", wide <= width, wide)
            paper = base64.b64decode(page.call("Page.printToPDF", printBackground=False)["data"])
            check("it prints", paper.startswith(b"%PDF") and len(paper) > 10_000, len(paper))
            chinese_file = write("html", "zh")
            page.open(chinese_file, 390)
            check("the Chinese page says so", page.value("return document.documentElement.lang") == "zh-CN")
            charts(page, report["dumps"][0], check)
            own = {f"file://{one}" for one in (file, chinese_file)} | other_pages(page, weir, evidence[0], base, check)
            asked = [url for url in page.requests if url.split("#")[0] not in own and not url.startswith("data:")]
            check("no request left the page", asked == [] and len(page.requests) >= 4, page.requests)
            check("and the browser complains of nothing", page.complaints == [], page.complaints)
        english = list(chinese(json.loads(write("json", "zh").read_text())))
        check("no sentence of the Chinese report is English", english == [], english)
    except devtools.Gone as e:
        print(f"skipped: what is left of the page in a browser, for chromium does not run on this machine: {e}", flush=True)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def main():
    failed = []

    def check(what, holds, seen=""):
        print(f"{'ok  ' if holds else 'FAIL'} {what}" + ("" if holds else f": {seen}"), flush=True)
        failed.extend([] if holds else [what])

    run(sys.argv[1:], check)
    print(f"{len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
