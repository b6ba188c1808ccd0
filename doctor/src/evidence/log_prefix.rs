//! What puts something before every line of a log, also before those of a stack: Kubernetes, Docker, Compose, the journal.
//! There it is taken away, so that an entry and its stack look as the broker wrote them.

use std::borrow::Cow;

use super::clock::date_ms;

/// Longest prefix that is looked at, in bytes.
const MAX_PREFIX: usize = 200;

/// The line as the broker wrote it. A line that says nothing without its prefix, such as its only time, keeps it.
pub(super) fn without_prefix(text: &str) -> Cow<'_, str> {
    if let Some(inside) = text.strip_prefix("{\"log\":\"").and_then(docker) {
        return Cow::Owned(inside);
    }
    let rest = compose(text).or_else(|| journal(text)).or_else(|| stamped(text));
    Cow::Borrowed(rest.filter(|rest| stands_alone(rest)).unwrap_or(text))
}

/// Whether a line goes on with an entry, or begins one that has its own time.
fn stands_alone(rest: &str) -> bool {
    rest.starts_with(['\t', '['])
        || rest.starts_with("Caused by:")
        || (rest.starts_with(' ') && rest.trim_start().starts_with("at "))
        || is_exception(rest)
}

/// A line that begins with the name of an exception belongs to the entry before it.
pub(super) fn is_exception(text: &str) -> bool {
    let word = text.split([':', ' ']).next().unwrap_or_default();
    word.contains('.') && (word.ends_with("Exception") || word.ends_with("Error"))
}

/// `2026-11-30T11:57:23.2Z `, with `stdout F ` behind it in the files of a Kubernetes node.
fn stamped(text: &str) -> Option<&str> {
    let (stamp, rest) = text.split_once(' ')?;
    if stamp.len() > 40 || !stamp.contains('T') || date_ms(stamp).is_none() {
        return None;
    }
    let of_node = ["stdout F ", "stderr F ", "stdout P ", "stderr P "];
    Some(of_node.iter().find_map(|stream| rest.strip_prefix(stream)).unwrap_or(rest))
}

/// `kafka-1  | `
fn compose(text: &str) -> Option<&str> {
    let (name, rest) = text.split_once(" | ")?;
    let name = name.trim_end();
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (!name.is_empty() && name.len() <= 64 && name.chars().all(legal)).then_some(rest)
}

/// `Nov 30 11:57:23 host kafka[7]: `, or with a time in one word.
fn journal(text: &str) -> Option<&str> {
    let at = text.get(..text.floor_char_boundary(MAX_PREFIX))?.find("]: ")?;
    let (head, rest) = (text.get(..at)?, text.get(at + 3..)?);
    let (head, id) = head.rsplit_once('[')?;
    let words: Vec<&str> = head.split_whitespace().collect();
    let is_time = match words.as_slice() {
        [month, day, time, _, _] => {
            month.len() == 3 && day.parse::<u8>().is_ok() && time.len() >= 8 && time.contains(':')
        }
        [stamp, _, _] => stamp.contains('T') && date_ms(stamp).is_some(),
        _ => false,
    };
    (is_time && !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
}

/// The text of a line in Docker's own files: up to the closing quote, unescaped, without the end of the line.
fn docker(text: &str) -> Option<String> {
    let mut line = String::new();
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '"' => return Some(line),
            '\\' => match characters.next()? {
                'n' | 'r' => {}
                't' => line.push('\t'),
                'u' => {
                    let digits: String = characters.by_ref().take(4).collect();
                    let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                    // Colours are escaped, too: nothing that a terminal obeys.
                    line.push(code.filter(|c| !c.is_control()).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                other => line.push(other),
            },
            c => line.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_every_runtime_are_taken_away() {
        for rest in [
            "[2026-11-30 11:57:23,100] ERROR x (y)",
            "\tat java.base/sun.nio.ch.Util.getTemporaryDirectBuffer(Util.java:243)",
            "java.lang.OutOfMemoryError: Direct buffer memory",
            "Caused by: java.io.IOException: Map failed",
        ] {
            let quoted = rest.replace('\t', "\\t");
            for line in [
                format!("2026-11-30T11:57:23.200000001Z {rest}"),
                format!("2026-11-30T19:57:23.2+08:00 stdout F {rest}"),
                format!("kafka-1  | {rest}"),
                format!("Nov 30 11:57:23 host kafka-server-start.sh[123]: {rest}"),
                format!("2026-11-30T11:57:23+0000 host kafka[1]: {rest}"),
                format!(
                    "{{\"log\":\"{quoted}\\n\",\"stream\":\"stdout\",\"time\":\"2026-11-30T11:57:23.2Z\"}}"
                ),
            ] {
                assert_eq!(without_prefix(&line), rest, "{line}");
            }
        }
        assert_eq!(without_prefix("{\"log\":\"a \\\"b\\\" \\u003c \\u001b\\n\"}"), "a \"b\" < \u{fffd}");
    }

    #[test]
    fn what_is_no_prefix_or_the_only_time_stays() {
        for text in [
            "",
            "[2026-11-30 11:57:23,100] WARN a | b (c)",
            "2026-11-30T11:57:23.2Z ERROR plain words",
            "2026-11-30 11:57:23,100 ERROR thread[1]: words",
            "Nov 30 11:57:23 host kafka[1]: ERROR plain words",
            "{\"log\":\"without an end",
            "{\"level\":\"ERROR\"}",
        ] {
            assert_eq!(without_prefix(text), text);
        }
    }
}
