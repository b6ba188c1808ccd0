//! The report as one self-contained page: table and chart, light and dark.

use std::fmt::Write;

use super::report::{Report, size};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 320.0;
/// Points of the line; more would not be seen.
const POINTS: usize = 1000;

const STYLE: &str = "
:root { color-scheme: light dark; --ground: #f6f8fa; --card: #fff; --ink: #17212b; --soft: #64748b; --line: #dde4ea;
  --water: #1d7fb8; --fill: #1d7fb833; --crest: #d64545; --phase: #00000009; --good: #2a8f5b }
@media (prefers-color-scheme: dark) { :root { --ground: #0e151b; --card: #17212a; --ink: #e6edf3; --soft: #8b9cab;
  --line: #27343f; --water: #45a8e0; --fill: #45a8e033; --crest: #ff7b72; --phase: #ffffff0d; --good: #56c48a } }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1080px; margin: 0 auto; padding: 28px 16px 48px }
h1 { font-size: 22px; margin: 0 0 4px } p { margin: 0 0 18px; color: var(--soft) }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px; margin: 0 0 16px;
  overflow-x: auto }
svg { width: 100%; height: auto; display: block } svg text { font-size: 13px; fill: var(--soft) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
td { padding: 7px 16px 7px 0; border-top: 1px solid var(--line); vertical-align: top }
tr:first-child td { border-top: 0 } td:first-child { font-weight: 600 }
.verdict { font-size: 17px; font-weight: 600 } .good { color: var(--good) } .bad { color: var(--crest) }
";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The largest sample of each of at most [`POINTS`] equal parts.
fn thinned(samples: &[(f64, u64)]) -> impl Iterator<Item = (f64, u64)> {
    let each = samples.len().div_ceil(POINTS).max(1);
    samples.chunks(each).filter_map(|part| part.iter().copied().max_by_key(|(_, bytes)| *bytes))
}

fn chart(report: &Report) -> String {
    let limit = report.limit().max(1);
    let top = limit.max(report.peak()) as f64 * 1.08;
    let end = report.memory.last().map_or(1.0, |(at, _)| at.max(0.001));
    let x = |at: f64| at / end * WIDTH;
    let y = |bytes: f64| HEIGHT - bytes / top * HEIGHT;
    let mut line = String::new();
    for (index, (at, bytes)) in thinned(&report.memory).enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        _ = write!(line, "{command}{:.1} {:.1}", x(at), y(bytes as f64));
    }
    let (began, ended) = report.phases;
    let mut svg = format!(
        "<svg viewBox=\"-70 -14 {} {}\" role=\"img\" aria-label=\"Anonymous memory against the budget\">",
        WIDTH + 80.0,
        HEIGHT + 44.0
    );
    _ = write!(
        svg,
        "<rect x=\"{:.1}\" y=\"0\" width=\"{:.1}\" height=\"{HEIGHT}\" fill=\"var(--phase)\"/>",
        x(began),
        x(ended) - x(began)
    );
    for quarter in 0..=4 {
        let bytes = limit / 4 * quarter;
        let at = y(bytes as f64);
        _ = write!(
            svg,
            "<path d=\"M0 {at:.1}H{WIDTH}\" stroke=\"var(--line)\"/><text x=\"-8\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            at + 4.0,
            size(bytes)
        );
    }
    if !line.is_empty() {
        _ = write!(
            svg,
            "<path d=\"{line}L{WIDTH} {HEIGHT}L{:.1} {HEIGHT}Z\" fill=\"var(--fill)\"/><path d=\"{line}\" \
             fill=\"none\" stroke=\"var(--water)\" stroke-width=\"2\"/>",
            x(report.memory.first().map_or(0.0, |(at, _)| *at))
        );
    }
    let crest = y(limit as f64);
    _ = write!(
        svg,
        "<path d=\"M0 {crest:.1}H{WIDTH}\" stroke=\"var(--crest)\" stroke-width=\"2\" stroke-dasharray=\"8 6\"/>\
         <text x=\"6\" y=\"{:.1}\" style=\"fill:var(--crest)\">memory.budget.bytes</text>",
        crest - 5.0
    );
    for (at, text) in [(0.0, "calm"), (x(began), "attack"), (x(ended), "after")] {
        _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{text}</text>", at + 4.0, HEIGHT + 18.0);
    }
    _ = write!(
        svg,
        "<text x=\"{WIDTH}\" y=\"{:.1}\" text-anchor=\"end\">{end:.0} s</text></svg>",
        HEIGHT + 18.0
    );
    svg
}

/// Renders the page.
pub(super) fn render(report: &Report) -> String {
    let mut rows = String::new();
    for row in report.rows() {
        rows.push_str("<tr>");
        for cell in row {
            _ = write!(rows, "<td>{}</td>", escaped(&cell));
        }
        rows.push_str("</tr>\n");
    }
    let class = if report.faults().is_empty() { "good" } else { "bad" };
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>weir demo</title>\n<style>{STYLE}</style></head>\n<body><main>\n<h1>weir demo</h1>\n<p>{}</p>\n\
         <div class=\"card verdict {class}\">{}</div>\n<div class=\"card\">{}</div>\n\
         <div class=\"card\"><table>\n{rows}</table></div>\n</main></body></html>\n",
        escaped(&report.plan.sentence()),
        escaped(&report.verdict()),
        chart(report),
    )
}
