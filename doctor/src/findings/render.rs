//! Evidence and findings as text that fits a terminal. What comes from evidence cannot command it.

use std::fmt::Write as _;

use super::{Finding, Headline, Language, Proof, Remedy, Severity, exact, human};
use crate::evidence::{Evidence, FileKind, FileNote};
use crate::report::{Layout, plain, text_columns, wrap};

/// Width of the column with labels.
const LABEL: usize = 12;
/// Proofs that are written out; more are counted.
const PROOFS: usize = 8;

struct Words {
    evidence: &'static str,
    unknown: &'static str,
    cause: &'static str,
    why: &'static str,
    cure: &'static str,
    nothing_grave: &'static str,
    remedy: &'static str,
    caution: &'static str,
    frees: &'static str,
    restart: &'static str,
    no_restart: &'static str,
    line: &'static str,
    lines: &'static str,
    more: &'static str,
    nothing: &'static str,
}

fn words(language: Language) -> Words {
    match language {
        Language::English => Words {
            evidence: "evidence",
            unknown: "of no kind that is known here",
            cause: "cause",
            why: "why",
            cure: "cure",
            nothing_grave: "fine",
            remedy: "remedy",
            caution: "but",
            frees: "frees up to",
            restart: "takes a restart",
            no_restart: "takes no restart",
            line: "line",
            lines: "lines",
            more: "more",
            nothing: "No finding: the evidence supports none of the rules.",
        },
        Language::Chinese => Words {
            evidence: "证据",
            unknown: "不是可识别的类型",
            cause: "原因",
            why: "原因",
            cure: "措施",
            nothing_grave: "正常",
            remedy: "措施",
            caution: "注意",
            frees: "最多释放",
            restart: "需要重启",
            no_restart: "无需重启",
            line: "行",
            lines: "行",
            more: "更多",
            nothing: "没有结论：证据不支持任何一条规则。",
        },
    }
}

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
    let words = words(layout.language);
    let mut out = String::new();
    for file in &evidence.files {
        let kinds: Vec<_> = file.kinds.iter().map(|kind| kind.label().into(layout.language)).collect();
        let what = if kinds.is_empty() { words.unknown.to_owned() } else { kinds.join(", ") };
        let lines = if file.lines > 0 && !file.kinds.is_empty() && !file.kinds.contains(&FileKind::HeapDump) {
            let word = if file.lines == 1 { words.line } else { words.lines };
            format!(", {} {word}", exact(file.lines))
        } else {
            String::new()
        };
        rows(&mut out, layout, 2, &format!("{}: {what}{lines}", path(file)));
        for problem in &file.problems {
            let place =
                if problem.line > 0 { format!("{}:{}", path(file), problem.line) } else { path(file) };
            rows(&mut out, layout, 4, &format!("! {place}: {}", plain(problem.text.get(layout.language))));
        }
    }
    out
}

/// The findings, the gravest first.
pub fn findings_text(findings: &[Finding], layout: Layout) -> String {
    let words = words(layout.language);
    let mut out = String::new();
    if findings.is_empty() {
        let _ = writeln!(out, "{}", words.nothing);
    }
    for finding in findings {
        let severity = finding.severity.label().into(layout.language);
        let title = format!("{} [{}]", plain(finding.title.get(layout.language)), finding.id);
        labelled_in(&mut out, layout, &severity, &title, Some(finding.severity.colour()));
        labelled(&mut out, layout, words.cause, &plain(finding.cause.get(layout.language)));
        for (index, proof) in finding.evidence.iter().take(PROOFS).enumerate() {
            let label = if index == 0 { words.evidence } else { "" };
            labelled(&mut out, layout, label, &proof_text(proof, layout.language));
        }
        if let Some(more) = finding.evidence.len().checked_sub(PROOFS).filter(|more| *more > 0) {
            labelled(&mut out, layout, "", &format!("{more} {}", words.more));
        }
        for remedy in &finding.remedies {
            labelled(&mut out, layout, words.remedy, &remedy_text(remedy, layout.language));
            if let Some(caution) = &remedy.caution {
                labelled(&mut out, layout, words.caution, &plain(caution.get(layout.language)));
            }
        }
        out.push('\n');
    }
    out
}

/// What failed, why, and the cure: the first lines of a report.
pub fn headline_text(headline: &Headline, layout: Layout) -> String {
    let words = words(layout.language);
    let mut out = String::new();
    let what = plain(headline.what.get(layout.language));
    match headline.severity.filter(|severity| *severity != Severity::Note) {
        Some(severity) => {
            let label = severity.label().into(layout.language);
            labelled_in(&mut out, layout, &label, &what, Some(severity.colour()));
        }
        None => labelled_in(&mut out, layout, words.nothing_grave, &what, Some("1;32")),
    }
    if let Some(why) = &headline.why {
        labelled(&mut out, layout, words.why, &plain(why.get(layout.language)));
    }
    if let Some(cure) = &headline.cure {
        labelled(&mut out, layout, words.cure, &remedy_text(cure, layout.language));
    }
    out
}

/// What to do, what it frees, and whether it takes a restart.
fn remedy_text(remedy: &Remedy, language: Language) -> String {
    let words = words(language);
    let restart = if remedy.needs_restart { words.restart } else { words.no_restart };
    let effect = match remedy.frees_bytes {
        Some(bytes) => {
            let between = if language == Language::Chinese { "；" } else { "; " };
            format!("{} {} = {}{between}{restart}", words.frees, exact(bytes), human(bytes))
        }
        None => restart.to_owned(),
    };
    let action = plain(remedy.action.get(language));
    match language {
        Language::English => format!("{action} ({effect})"),
        Language::Chinese => format!("{action}（{effect}）"),
    }
}

/// A place and what stands there.
pub(crate) fn proof_text(proof: &Proof, language: Language) -> String {
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
        assert!(well.starts_with("正常        证据不支持"), "{well}");
    }

    #[test]
    fn nothing_found_is_said() {
        assert!(findings_text(&[], layout(80, Language::English)).starts_with("No finding"));
    }
}
