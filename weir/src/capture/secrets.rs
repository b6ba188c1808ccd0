//! What may be a secret is left out: values by the names of their settings, not by what they look like.

use std::path::Path;

/// What stands in the place of a value.
const HIDDEN: &str = "<left out>";
/// Parts of names whose values are nobody's business.
const WORDS: [&str; 8] =
    ["password", "passwd", "secret", "jaas", "token", "credential", "passphrase", "private"];

/// Whether the value of such a setting may be a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // `ssl.keystore.key`, `ssl.key`, `aws.access.key`; not `ssl.keystore.location`.
    WORDS.iter().any(|word| name.contains(word)) || name.ends_with(".key") || name.ends_with("accesskey")
}

/// A copy of a properties file without what may be a secret; a first line says so.
pub(super) fn settings(text: &str, path: &Path) -> String {
    let (kept, count) = properties(text);
    format!(
        "# copy of {} by weir doctor capture; values left out as possible secrets: {count}\n{kept}",
        path.display()
    )
}

/// The answers of `VM.command_line` and `VM.system_properties` without what may be a secret.
pub(super) fn jvm(text: &str) -> String {
    let is_command_line =
        text.lines().any(|line| line.starts_with("jvm_args:") || line.starts_with("VM Arguments:"));
    if !is_command_line {
        return properties(text).0;
    }
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let mut secret = false;
        for (index, word) in line.split(' ').enumerate() {
            if index > 0 {
                out.push(' ');
            }
            // A value may hold blanks; it ends with the next option.
            if word.starts_with('-') || index == 0 {
                secret = false;
            } else if secret {
                continue;
            }
            match word.trim_start_matches("-D").split_once('=') {
                Some((name, _)) if is_secret(name) => {
                    secret = true;
                    let start = word.len() - word.trim_start_matches("-D").len();
                    out.push_str(word.get(..start + name.len()).unwrap_or_default());
                    out.push('=');
                    out.push_str(HIDDEN);
                }
                _ => out.push_str(word),
            }
        }
        out.push('\n');
    }
    out
}

/// Lines of `name=value`, a value that goes on over several lines being one, and how many were left out.
fn properties(text: &str) -> (String, usize) {
    let mut out = String::with_capacity(text.len());
    let mut count = 0;
    let (mut continued, mut secret) = (false, false);
    for line in text.lines() {
        let start = line.trim_start();
        let is_comment = start.starts_with(['#', '!']);
        let goes_on = line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1 && !is_comment;
        if continued && secret {
            // The rest of a secret.
        } else if continued || start.is_empty() {
            out.push_str(line);
            out.push('\n');
        } else {
            // A setting that was commented out may still be somebody's password.
            let end = start.find(['=', ':']).or_else(|| start.find(' '));
            let name = end.and_then(|end| start.get(..end)).unwrap_or_default();
            secret = is_secret(name.trim());
            if secret {
                count += 1;
                out.push_str(name);
                out.push('=');
                out.push_str(HIDDEN);
            } else {
                out.push_str(line);
            }
            out.push('\n');
        }
        continued = goes_on;
    }
    (out, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_told_by_their_names() {
        for name in [
            "ssl.keystore.password",
            "ssl.key.password",
            "listener.name.a.plain.sasl.jaas.config",
            "ssl.keystore.key",
            "javax.net.ssl.trustStorePassword",
            "rsm.config.s3.secret.access.key",
            "delegation.token.master.key",
            "aws.accessKey",
            "sasl.oauthbearer.client.credentials.client.secret",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "ssl.keystore.location",
            "log.dirs",
            "num.network.threads",
            "ssl.keystore.type",
            "key.converter",
            "java.version",
            "jdk.nio.maxCachedBufferSize",
            "java.vm.specification.name",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn a_copy_of_settings_keeps_all_but_secrets() {
        let text = "# mine\nlog.dirs=/a,\\\n  /b\nssl.key.password = abc\nsasl.jaas.config=Login required \\\n  password=\"abc\";\n\
                    #ssl.keystore.password=abc\nnum.io.threads: 9\n";
        let copy = settings(text, Path::new("/etc/server.properties"));
        assert!(!copy.contains("abc"), "{copy}");
        assert!(copy.starts_with("# copy of /etc/server.properties by weir doctor capture; values left out as possible secrets: 3\n"));
        assert!(copy.contains("log.dirs=/a,\\\n  /b\n") && copy.contains("num.io.threads: 9\n"), "{copy}");
        assert!(copy.contains("sasl.jaas.config=<left out>\n#ssl.keystore.password=<left out>\n"), "{copy}");
    }

    #[test]
    fn command_lines_and_system_properties_keep_all_but_secrets() {
        let text = "7:\nVM Arguments:\njvm_args: -Xmx1g -Djavax.net.ssl.keyStorePassword=abc def -Dx=1 \n\
                    java_command: kafka.Kafka server.properties --override ssl.key.password=abc --override num.io.threads=9\n";
        let kept = jvm(text);
        assert!(!kept.contains("abc") && !kept.contains("def"), "{kept}");
        assert!(
            kept.contains("jvm_args: -Xmx1g -Djavax.net.ssl.keyStorePassword=<left out>  -Dx=1 \n"),
            "{kept}"
        );
        assert!(
            kept.contains("--override ssl.key.password=<left out> --override num.io.threads=9\n"),
            "{kept}"
        );
        let kept = jvm("VM Arguments:\njvm_args: -Dx.password=a b: abc\njava_command: x\n");
        assert_eq!(kept, "VM Arguments:\njvm_args: -Dx.password=<left out>  \njava_command: x\n");
        let kept = jvm("7:\n#Mon\njavax.net.ssl.keyStorePassword=abc\njava.version=17\n");
        assert_eq!(kept, "7:\n#Mon\njavax.net.ssl.keyStorePassword=<left out>\njava.version=17\n");
    }
}
