//! Charts as inline SVG. Widths are percentages of the chart's own width, so that they keep their proportions on any page and
//! text keeps its size; every part has a title, and the figures stand in a table beside it.

use crate::account::Spread;
use crate::language::{Text, text};
use crate::report::format::{bytes, size};
use crate::report::model::{Bar, Chart};
use crate::report::terminal::fit;

use super::escape::Page;

/// Columns of a label in a chart of a narrow page.
const LABEL: usize = 34;

/// The largest reservation that failed.
pub(super) struct Asked {
    pub(super) bytes: u64,
}

pub(super) fn chart(page: &mut Page, chart: &Chart, id: &str, asked: Option<&Asked>) {
    match chart {
        Chart::Limit { bars, limit } => limit_chart(page, bars, *limit, id, asked),
        Chart::Groups(groups) => group_charts(page, groups, id),
        Chart::Pairs(pairs) => pair_chart(page, pairs, id),
    }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "0%".into() } else { format!("{:.4}%", part as f64 * 100.0 / whole as f64) }
}

/// The head of a chart: what it is, for those who do not see it.
fn open(page: &mut Page, id: &str, height: usize, title: &Text, description: &Text) {
    page.raw("<svg class=\"chart\" role=\"img\" width=\"100%\"");
    page.attribute("height", &height.to_string());
    page.attribute("aria-labelledby", &format!("{id}-t {id}-d"));
    page.raw("><title");
    page.attribute("id", &format!("{id}-t"));
    page.raw(">");
    page.say(title);
    page.raw("</title><desc");
    page.attribute("id", &format!("{id}-d"));
    page.raw(">");
    page.say(description);
    page.raw("</desc>");
}

fn label(page: &mut Page, x: &str, y: usize, anchor: &'static str, says: &str) {
    page.raw("<text");
    page.attribute("x", x);
    page.attribute("y", &y.to_string());
    page.attribute("text-anchor", anchor);
    page.raw(">");
    page.text(says);
    page.raw("</text>");
}

/// A part of a chart with its own title.
fn part(
    page: &mut Page,
    class: &str,
    (x, width): (&str, &str),
    (y, height): (usize, usize),
    says: &Text,
    value: u64,
) {
    page.raw("<rect");
    page.attribute("class", class);
    page.attribute("x", x);
    page.attribute("y", &y.to_string());
    page.attribute("width", width);
    page.attribute("height", &height.to_string());
    page.attribute("data-bytes", &value.to_string());
    page.raw("><title>");
    page.say(says);
    page.raw("</title></rect>");
}

fn sized(label: &Text, value: u64) -> Text {
    let (exact, readable) = (bytes(value), size(value));
    text!("{label}: {exact} bytes ({readable})", "{label}：{exact} 字节（{readable}）"; label)
}

fn limit_chart(page: &mut Page, bars: &[Bar], limit: Option<u64>, id: &str, asked: Option<&Asked>) {
    let taken = |bar: &Bar| -> u64 {
        bar.segments.iter().filter(|segment| segment.kind != "left").map(|segment| segment.bytes).sum()
    };
    let asked = asked.filter(|_| limit.is_some());
    let request = bars.first().map_or(0, taken).saturating_add(asked.map_or(0, |asked| asked.bytes));
    let scale = bars.iter().map(taken).chain(limit).chain(asked.map(|_| request)).max().unwrap_or(0).max(1);
    let (top, row) = (22, 62);
    let title = text!("What fills direct memory", "直接内存被什么占用");
    let parts: Vec<_> = bars
        .iter()
        .flat_map(|bar| bar.segments.iter())
        .map(|segment| sized(&segment.label, segment.bytes))
        .collect();
    let description = Text::join(&parts, "; ", "；");
    page.raw("<figure class=\"fill\">");
    open(page, id, top + row * bars.len(), &title, &description);
    for (index, bar) in bars.iter().enumerate() {
        let y = top + index * row;
        label(page, "0", y + 12, "start", bar.label.get(page.language));
        let mut at = 0_u64;
        for segment in &bar.segments {
            let class = format!("k k-{}", segment.kind);
            let place = (percent(at, scale), percent(segment.bytes, scale));
            let says = sized(&segment.label, segment.bytes);
            part(page, &class, (&place.0, &place.1), (y + 20, 30), &says, segment.bytes);
            at = at.saturating_add(segment.bytes);
        }
        if let (0, Some(asked)) = (index, asked) {
            let says = sized(&text!("the largest request that failed", "失败请求中最大的一个"), asked.bytes);
            let place = (percent(taken(bar), scale), percent(asked.bytes, scale));
            part(page, "k k-asked", (&place.0, &place.1), (y + 23, 24), &says, asked.bytes);
        }
    }
    if let Some(limit) = limit {
        let x = percent(limit, scale);
        let anchor = if limit > scale / 2 { "end" } else { "start" };
        let (exact, readable) = (bytes(limit), size(limit));
        let says = text!("limit {exact} ({readable})", "上限 {exact}（{readable}）");
        label(page, &x, 12, anchor, says.get(page.language));
        page.raw("<line class=\"limit\"");
        page.attribute("x1", &x);
        page.attribute("x2", &x);
        page.attribute("y1", "17");
        page.attribute("y2", &(top + 54).to_string());
        page.raw("></line>");
    }
    page.raw("</svg><ul class=\"legend\">");
    let mut item = |kind: &str, label: &Text, value: u64, of: Option<u64>| {
        page.raw("<li><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\"");
        page.attribute("class", &format!("k k-{kind}"));
        page.raw("></rect></svg><span>");
        page.say(label);
        page.raw("</span><span class=\"n\">");
        page.text(&bytes(value));
        page.raw("</span><small>");
        page.text(&size(value));
        if let Some(whole) = of {
            page.text(&format!(" · {:.1} %", value as f64 * 100.0 / whole as f64));
        }
        page.raw("</small></li>");
    };
    for (index, bar) in bars.iter().enumerate() {
        for segment in &bar.segments {
            item(segment.kind, &segment.label, segment.bytes, limit.filter(|_| index == 0));
        }
    }
    if let Some(asked) = asked {
        let says = text!("the largest request that failed", "失败请求中最大的一个");
        item("asked", &says, asked.bytes, limit);
    }
    page.raw("</ul>");
    page.raw("</figure>");
}

/// Two bars for each of some things: what it was, what it is.
fn pair_chart(page: &mut Page, pairs: &[(Text, u64, u64)], id: &str) {
    let row = 48;
    let title = text!("Bytes before (pale) and after", "之前（浅色）与之后的字节数");
    page.raw("<figure class=\"pairs\"><figcaption>");
    page.say(&title);
    page.raw("</figcaption>");
    let pair_text = |of: &Text, before: u64, after: u64| {
        let (before, after) = (bytes(before), bytes(after));
        text!("{of}: {before} → {after} bytes", "{of}：{before} → {after} 字节"; of)
    };
    let parts: Vec<_> = pairs.iter().map(|(of, before, after)| pair_text(of, *before, *after)).collect();
    open(page, &format!("{id}-pairs"), row * pairs.len(), &title, &Text::join(&parts, "; ", "；"));
    let most = pairs.iter().map(|(_, before, after)| (*before).max(*after)).max().unwrap_or(0);
    for (index, ((of, before, after), says)) in pairs.iter().zip(&parts).enumerate() {
        let y = index * row;
        let name = fit(of.get(page.language), LABEL * 2);
        label(page, "0", y + 13, "start", &name);
        label(page, "100%", y + 13, "end", &format!("{} → {}", size(*before), size(*after)));
        for (at, class, value) in [(19, "k k-range before", *before), (30, "k k-cached sum", *after)] {
            part(page, class, ("0", &percent(value, most)), (y + at, 9), says, value);
        }
    }
    page.raw("</svg></figure>");
}

fn group_charts(page: &mut Page, groups: &[(Text, Spread)], id: &str) {
    let row = 38;
    let name = |page: &Page, label: &Text| fit(label.get(page.language), LABEL);
    page.raw("<div class=\"pair\"><figure class=\"sums\"><figcaption>");
    let title = text!("Bytes by group of threads", "各线程组的字节数");
    page.say(&title);
    page.raw("</figcaption>");
    let parts: Vec<_> = groups.iter().map(|(label, spread)| sized(label, spread.sum)).collect();
    open(page, &format!("{id}-sum"), row * groups.len(), &title, &Text::join(&parts, "; ", "；"));
    let most = groups.iter().map(|(_, spread)| spread.sum).max().unwrap_or(0);
    for (index, (of, spread)) in groups.iter().enumerate() {
        let y = index * row;
        let says = name(page, of);
        label(page, "0", y + 13, "start", &says);
        label(page, "100%", y + 13, "end", &size(spread.sum));
        let width = percent(spread.sum, most);
        part(page, "k k-track", ("0", "100%"), (y + 19, 9), of, most);
        part(page, "k k-cached sum", ("0", &width), (y + 19, 9), &sized(of, spread.sum), spread.sum);
    }
    page.raw("</svg></figure><figure class=\"spreads\"><figcaption>");
    let title =
        text!("Bytes of one thread: least to most, P50 to P95", "单个线程的字节数：最小至最大，P50 至 P95");
    page.say(&title);
    page.raw("</figcaption>");
    let spread_text = |of: &Text, spread: &Spread| {
        let Spread { min, p50, p95, max, .. } = *spread;
        let [min, p50, p95, max] = [min, p50, p95, max].map(bytes);
        text!(
            "{of}: min {min}, P50 {p50}, P95 {p95}, max {max}",
            "{of}：最小 {min}，P50 {p50}，P95 {p95}，最大 {max}";
            of
        )
    };
    let parts: Vec<_> = groups.iter().map(|(of, spread)| spread_text(of, spread)).collect();
    open(page, &format!("{id}-spread"), row * groups.len(), &title, &Text::join(&parts, "; ", "；"));
    let most = groups.iter().map(|(_, spread)| spread.max).max().unwrap_or(0);
    for (index, (of, spread)) in groups.iter().enumerate() {
        let (y, says) = (index * row, spread_text(of, spread));
        let shown = name(page, of);
        label(page, "0", y + 13, "start", &shown);
        let ends = if spread.min == spread.max {
            size(spread.max)
        } else {
            format!("{} – {}", size(spread.min), size(spread.max))
        };
        label(page, "100%", y + 13, "end", &ends);
        part(page, "k k-track", ("0", "100%"), (y + 19, 9), of, most);
        let span = |from: u64, to: u64| (percent(from, most), percent(to.saturating_sub(from), most));
        let (from, width) = span(spread.min, spread.max);
        part(page, "k k-range", (&from, &width), (y + 22, 3), &says, spread.max.saturating_sub(spread.min));
        let (from, width) = span(spread.p50, spread.p95);
        part(
            page,
            "k k-cached box",
            (&from, &width),
            (y + 19, 9),
            &says,
            spread.p95.saturating_sub(spread.p50),
        );
        // A tick also where all threads have the same.
        page.raw("<line class=\"tick\"");
        let x = percent(spread.p50, most);
        page.attribute("x1", &x);
        page.attribute("x2", &x);
        page.attribute("y1", &(y + 17).to_string());
        page.attribute("y2", &(y + 30).to_string());
        page.raw("></line>");
    }
    page.raw("</svg></figure></div>");
}
