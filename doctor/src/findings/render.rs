//! Evidence and findings as text that fits a terminal. What comes from evidence cannot command it.

use std::fmt::Write as _;

use super::{Finding, Headline, Language, Proof, Remedy, Severity, exact, human};
use crate::evidence::{Evidence, FileKind, FileNote};
use crate::language::{Text, text};
use crate::report::{Layout, plain, text_columns, wrap};

/// Width of the column with labels.
const LABEL: usize = 12;
/// Proofs that are written out; more are counted.
const PROOFS: usize = 8;

impl Severity {
    fn colour(self) -> &'static str {
        match self {
            Self::Critical => "1;31",
            Self::Warning => "1;33",
            Self::Note => "1;36",
        }
    }
}

/// What each file was taken for, and what in it could not be read.
pub fn evidence_text(evidence: &Evidence, layout: Layout) -> String {
    let mut out = String::new();
    for file in &evidence.files {
        let mut kinds: Vec<_> = file.kinds.iter().map(|kind| kind.label()).collect();
        if kinds.is_empty() && file.lines == 0 && file.problems.is_empty() {
            kinds.push(text!("empty", "空文件"));
        } else if kinds.is_empty() {
            kinds.push(text!("of no kind that is known here", "类型无法识别"));
        } else if file.lines > 0 && !file.kinds.contains(&FileKind::HeapDump) {
            let (count, lines) = (exact(file.lines), if file.lines == 1 { "line" } else { "lines" });
            kinds.push(text!("{count} {lines}", "{count} 行"));
        }
        let (path, what) = (path(file), Text::join(&kinds, ", ", "，"));
        rows(&mut out, layout, 2, &layout.say(&text!("{path}: {what}", "{path}：{what}"; what)));
        for problem in &file.problems {
            let place = if problem.line > 0 { format!("{path}:{}", problem.line) } else { path.clone() };
            let what = &problem.text;
            rows(&mut out, layout, 4, &layout.say(&text!("! {place}: {what}", "! {place}：{what}"; what)));
        }
    }
    out
}

/// The findings, the gravest first.
pub fn findings_text(findings: &[Finding], layout: Layout) -> String {
    let mut out = String::new();
    if findings.is_empty() {
        rows(&mut out, layout, 0, &layout.say(&no_finding()));
    }
    for finding in findings {
        let severity = layout.say(&finding.severity.label());
        let title = format!("{} [{}]", layout.say(&finding.title), finding.id);
        labelled_in(&mut out, layout, &severity, &title, Some(finding.severity.colour()));
        labelled(&mut out, layout, &layout.say(&text!("cause", "原因")), &layout.say(&finding.cause));
        proofs(&mut out, layout, &finding.evidence, PROOFS);
        for remedy in &finding.remedies {
            let label = layout.say(&text!("remedy", "措施"));
            labelled(&mut out, layout, &label, &layout.say(&remedy_text(remedy)));
            if let Some(caution) = &remedy.caution {
                labelled(&mut out, layout, &layout.say(&text!("but", "注意")), &layout.say(caution));
            }
        }
        out.push('\n');
    }
    out
}

/// What is said where no rule fires.
pub(crate) fn no_finding() -> Text {
    text!("No finding: the evidence supports none of the rules.", "没有诊断结论：现有证据未触发任何规则。")
}

/// The first places of evidence, and how many more there are.
pub(crate) fn proofs(out: &mut String, layout: Layout, all: &[Proof], most: usize) {
    for (index, proof) in all.iter().take(most).enumerate() {
        let label = if index == 0 { layout.say(&text!("evidence", "证据")) } else { String::new() };
        labelled(out, layout, &label, &proof_text(proof, layout.language));
    }
    if let Some(more) = all.len().checked_sub(most).filter(|more| *more > 0) {
        labelled(out, layout, "", &layout.say(&text!("and {more} more", "另有 {more} 处")));
    }
}

/// What failed, why, and the cure: the first lines of a report.
pub fn headline_text(headline: &Headline, layout: Layout) -> String {
    let mut out = String::new();
    let (label, colour) = match headline.severity {
        Some(Severity::Note) => (text!("fine", "正常"), "1;32"),
        Some(severity) => (severity.label(), severity.colour()),
        // Which is not health: there may have been nothing to judge.
        None => (text!("none", "无"), "1"),
    };
    labelled_in(&mut out, layout, &layout.say(&label), &layout.say(&headline.what), Some(colour));
    if let Some(why) = &headline.why {
        labelled(&mut out, layout, &layout.say(&text!("why", "原因")), &layout.say(why));
    }
    if let Some(cure) = &headline.cure {
        labelled(&mut out, layout, &layout.say(&text!("cure", "措施")), &layout.say(&remedy_text(cure)));
    }
    out
}

/// What to do, what it frees, and whether it takes a restart.
fn remedy_text(remedy: &Remedy) -> Text {
    let restart = match remedy.needs_restart {
        true => text!("takes a restart", "需要重启"),
        false => text!("takes no restart", "无需重启"),
    };
    let action = &remedy.action;
    match remedy.frees_bytes {
        None => text!("{action} ({restart})", "{action}（{restart}）"; action, restart),
        Some(bytes) => {
            let (bytes, size) = (exact(bytes), human(bytes));
            text!(
                "{action} (frees up to {bytes} bytes = {size}; {restart})",
                "{action}（最多释放 {bytes} 字节 = {size}；{restart}）";
                action, restart
            )
        }
    }
}

/// A place and what stands there.
fn proof_text(proof: &Proof, language: Language) -> String {
    let file = plain(&proof.file.display().to_string());
    let place = if proof.line > 0 { format!("{file}:{}", proof.line) } else { file };
    format!("{place}  {}", plain(proof.says.get(language)))
}

fn path(file: &FileNote) -> String {
    plain(&file.path.display().to_string())
}

/// Wrapped rows, all `indent` columns from the left.
pub(crate) fn rows(out: &mut String, layout: Layout, indent: usize, text: &str) {
    for row in wrap(text, layout.width.saturating_sub(indent).max(20)) {
        let _ = writeln!(out, "{:indent$}{row}", "");
    }
}

pub(crate) fn labelled(out: &mut String, layout: Layout, label: &str, text: &str) {
    labelled_in(out, layout, label, text, None);
}

/// `label   text`, the text wrapped beside the label.
pub(crate) fn labelled_in(out: &mut String, layout: Layout, label: &str, text: &str, colour: Option<&str>) {
    let indent = if colour.is_some() { 0 } else { 2 };
    let room = layout.width.saturating_sub(LABEL).max(20);
    for (index, row) in wrap(text, room).iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        let gap = LABEL.saturating_sub(indent + text_columns(label));
        let (start, end) = match colour {
            Some(code) if layout.colour => (format!("\x1b[{code}m"), "\x1b[0m"),
            _ => (String::new(), ""),
        };
        let line = format!("{:indent$}{start}{label}{end}{:gap$}{start}{row}{end}", "", "");
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::findings;

    fn layout(width: usize, language: Language) -> Layout {
        Layout { width, colour: false, language }
    }

    const TEXTS: [&str; 3] = [
        "num.network.threads=80\n",
        "-XX:MaxHeapSize=1073741824 -XX:+DisableExplicitGC -XX:+HeapDumpOnOutOfMemoryError\n",
        "java.lang.OutOfMemoryError: Cannot reserve 369295617 bytes of direct buffer memory (allocated: 1073741800, limit: 1073741824)\n\
         \tat java.base/sun.nio.ch.Util.getTemporaryDirectBuffer(Util.java:243)\n\tat kafka.network.Processor.poll(S.scala:1)\n",
    ];

    #[test]
    fn every_row_fits_the_terminal_in_both_languages() {
        let found = findings(&TEXTS);
        for language in [Language::English, Language::Chinese] {
            for width in [40, 80, 100, 200] {
                let layout = layout(width, language);
                let first = headline_text(&Headline::of(&found), layout);
                let text = findings_text(&found, layout);
                let text = first + &text;
                for row in text.lines() {
                    assert!(text_columns(row) <= width, "{width}: {row}");
                }
                let whole: String = text.split_whitespace().collect();
                for finding in &found {
                    assert!(whole.contains(finding.id), "{text}");
                }
            }
        }
    }

    #[test]
    fn colour_is_written_only_on_demand() {
        let found = findings(&TEXTS);
        let coloured = Layout { colour: true, ..layout(80, Language::English) };
        assert!(findings_text(&found, coloured).contains("\x1b[1;31mcritical"));
        assert!(!findings_text(&found, layout(80, Language::English)).contains('\x1b'));
    }

    #[test]
    fn nothing_in_a_name_commands_the_terminal() {
        let mut evidence = Evidence::default();
        evidence.read(std::path::Path::new("a\u{1b}[2Jb"), &b"num.io.threads=\x1b[31mx\n"[..]);
        evidence.read(std::path::Path::new("nothing"), &b""[..]);
        assert!(evidence_text(&evidence, layout(80, Language::English)).contains("nothing: empty"));
        let found = crate::findings::diagnose(&evidence, &[]);
        let text = evidence_text(&evidence, layout(80, Language::English))
            + &findings_text(&found, layout(80, Language::English));
        assert!(!text.contains('\u{1b}') && text.contains("num.io.threads"), "{text}");
    }

    #[test]
    fn the_first_lines_say_what_failed_why_and_the_cure() {
        let headline = Headline::of(&findings(&TEXTS));
        let text = headline_text(&headline, layout(100, Language::English));
        let rows: Vec<_> = text.lines().collect();
        assert!(rows[0].starts_with("critical    Direct memory is exhausted: 369,295,617 bytes"), "{text}");
        assert!(text.contains("\n  why       The size 369,295,617 is no size"), "{text}");
        assert!(text.contains("\n  cure      "), "{text}");
        let well = headline_text(&Headline::of(&[]), layout(100, Language::Chinese));
        assert!(well.starts_with("无          "), "no evidence is no health: {well}");
        let fine = headline_text(&Headline::of(&findings(&TEXTS[..1])), layout(100, Language::Chinese));
        assert!(fine.starts_with("正常        "), "{fine}");
    }

    #[test]
    fn nothing_found_is_said() {
        assert!(findings_text(&[], layout(80, Language::English)).starts_with("No finding"));
    }
}
