//! `jdk.nio.maxCachedBufferSize` that has no effect: a value that is no plain number, or a name that is not this one.

use super::{Facts, Finding, Proof, Remedy, Severity, text};
use crate::evidence::excerpt;

const NAME: &str = "jdk.nio.maxCachedBufferSize";

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, value, proof) in &traps(facts) {
        if name != NAME {
            findings.push(misspelt(name, value, proof));
            continue;
        }
        let shown = excerpt(value);
        let meant =
            crate::evidence::jvm_size(value.trim_end_matches(['L', 'l', 'b', 'B'])).unwrap_or(1 << 20);
        findings.push(Finding {
            id: "cached-buffer-setting-ignored",
            severity: Severity::Warning,
            title: text!(
                "-D{NAME}={shown} has no effect: it is no plain number",
                "-D{NAME}={shown} 无效：不是纯数字"
            ),
            cause: text!(
                "The JDK reads the value as decimal digits; a unit, a suffix, hexadecimal or a negative number is ignored \
                 without a word, and every thread keeps its largest buffer.",
                "JDK 只接受十进制数字；带单位、后缀、十六进制或负数都会被静默忽略，每个线程仍保留其最大的缓冲区。"
            ),
            evidence: vec![proof.clone()],
            remedies: vec![Remedy::new(text!("write -D{NAME}={meant}", "写成 -D{NAME}={meant}"), true)],
        });
    }
    findings
}

/// A name that is not the property's.
fn misspelt(name: &str, value: &str, proof: &Proof) -> Finding {
    let (name, value) = (excerpt(name), excerpt(value));
    Finding {
        id: "cached-buffer-setting-ignored",
        severity: Severity::Warning,
        title: text!(
            "-D{name} has no effect: the property is called {NAME}",
            "-D{name} 无效：该属性名为 {NAME}"
        ),
        cause: text!(
            "Names of system properties are case-sensitive and unknown ones are ignored without a word.",
            "系统属性名区分大小写，未知的名称会被静默忽略。"
        ),
        evidence: vec![proof.clone()],
        remedies: vec![Remedy::new(text!("write -D{NAME}={value}", "写成 -D{NAME}={value}"), true)],
    }
}

/// Settings that were meant to be this one and have no effect: its value is no plain number, or, where it is not set at
/// all, names that are nearly its own.
pub(crate) fn traps(facts: &Facts<'_>) -> Vec<(String, String, Proof)> {
    let mut candidates = facts.system_properties(|name| name == NAME || is_misspelt(name));
    let has_right = candidates.iter().any(|(name, _, _)| name == NAME);
    // What Long.parseLong takes, and what the JDK then accepts.
    let is_in_force = |value: &str| value.parse::<i64>().is_ok_and(|number| number >= 0);
    candidates.retain(|(name, value, _)| if has_right { name == NAME && !is_in_force(value) } else { true });
    candidates
}

/// Whether a name was meant to be [`NAME`]: the words are there, or few letters are wrong.
fn is_misspelt(name: &str) -> bool {
    if name == NAME || name.len() > 64 {
        return false;
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace(['.', '-', '_'], "");
    let (name, wanted) = (plain(name), plain(NAME));
    name.ends_with("maxcachedbuffersize") || name.contains("maxcachedbuffer") || distance(&name, &wanted) <= 4
}

/// Edits that turn one text into the other.
fn distance(a: &str, b: &str) -> usize {
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut line = vec![left];
        for (y, above) in b.bytes().zip(last.iter().skip(1)) {
            left = (diagonal + usize::from(x != y)).min(left + 1).min(above + 1);
            line.push(left);
            diagonal = *above;
        }
        last = line;
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::one;

    fn found(argument: &str) -> Option<String> {
        let text = format!("VM Arguments:\njvm_args: -Xmx1g {argument} -server\n");
        one("cached-buffer-setting-ignored", &[&text])
            .map(|found| format!("{} | {}", found.title.en, found.remedies[0].action.en))
    }

    #[test]
    fn values_that_the_jdk_ignores_are_named() {
        for (value, meant) in [
            ("1m", "1048576"),
            ("1048576L", "1048576"),
            ("0x100000", "1048576"),
            ("-1", "1048576"),
            ("", "1048576"),
            ("256k", "262144"),
        ] {
            let text = found(&format!("-Djdk.nio.maxCachedBufferSize={value}")).unwrap();
            assert!(text.contains("no plain number") && text.ends_with(meant), "{text}");
        }
    }

    #[test]
    fn names_that_the_jdk_does_not_know_are_named() {
        for name in [
            "jdk.nio.maxCachedBuffersize",
            "jdk.nio.MaxCachedBufferSize",
            "sun.nio.maxCachedBufferSize",
            "jdk.nio.maxCacheBufferSize",
            "jdk.nio.max.cached.buffer.size",
        ] {
            let text = found(&format!("-D{name}=1048576")).unwrap();
            assert!(text.contains("is called jdk.nio.maxCachedBufferSize"), "{text}");
        }
    }

    #[test]
    fn right_settings_and_other_properties_are_left_alone() {
        for argument in [
            "-Djdk.nio.maxCachedBufferSize=1048576",
            "-Djdk.nio.maxCachedBufferSize=0",
            "-Djava.io.tmpdir=/tmp",
            "-Dkafka.logs.dir=/x",
        ] {
            assert_eq!(found(argument), None, "{argument}");
        }
        assert!(
            one("cached-buffer-setting-ignored", &["java.version=17\njdk.nio.maxCachedBufferSize=262144\n"])
                .is_none()
        );
    }
}
