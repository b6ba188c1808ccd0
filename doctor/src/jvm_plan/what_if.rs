//! Settings that a plan is made with: those of a file, and overrides that ask "what if". A what-if that changes nothing for
//! want of a letter is refused: its answer would be believed.

use weir_metadata::properties::{PropertyType, Scope, lookup, nearest};

use crate::evidence::ServerProperties;

/// The system property that bounds what threads keep.
const MAX_CACHED_BUFFER: &str = "jdk.nio.maxCachedBufferSize";

/// Settings of a JVM broker with overrides.
#[derive(Debug, Clone, Default)]
pub struct WhatIf {
    /// The broker's settings.
    pub properties: ServerProperties,
    /// `-Djdk.nio.maxCachedBufferSize` in bytes.
    pub max_cached_buffer_bytes: Option<u64>,
}

impl WhatIf {
    /// Sets a property of the broker, or `jdk.nio.maxCachedBufferSize`.
    ///
    /// # Errors
    /// A sentence that names the value and what is taken.
    pub fn set(&mut self, setting: &str) -> Result<(), String> {
        let Some((name, value)) = setting.split_once('=').map(|(name, value)| (name.trim(), value.trim()))
        else {
            return Err("it must have the form KEY=VALUE".into());
        };
        if name == MAX_CACHED_BUFFER {
            let bytes = value.parse::<i64>().ok().and_then(|bytes| u64::try_from(bytes).ok());
            let ignored = || format!("the JDK takes plain digits only and ignores {value}");
            self.max_cached_buffer_bytes = Some(bytes.ok_or_else(ignored)?);
            return Ok(());
        }
        if name.eq_ignore_ascii_case(MAX_CACHED_BUFFER) || name.starts_with("jdk.") {
            return Err(format!("the JDK ignores {name}; letter by letter it is {MAX_CACHED_BUFFER}"));
        }
        let of_listener = name.strip_prefix("listener.name.").and_then(|rest| rest.split_once('.'));
        let plain = of_listener.map_or(name, |(_, plain)| plain);
        match lookup(Scope::Broker, plain) {
            Some(row) if row.own => {
                return Err(format!("{name} is weir's own, a JVM broker does not know it"));
            }
            Some(row) => {
                row.parse(value).map_err(|error| error.to_string())?;
                if matches!(row.kind, PropertyType::Int | PropertyType::Long | PropertyType::Short)
                    && value.ends_with(|c: char| c.is_ascii_alphabetic())
                {
                    return Err(format!("Kafka takes no units: write plain digits instead of {value}"));
                }
            }
            // A listener may have settings of its SASL mechanisms, which are in no table.
            None if of_listener.is_some() => {}
            None => {
                let near = nearest(Scope::Broker, plain).map(|near| format!("; {near} is the nearest"));
                return Err(format!("{name} is no property of Kafka{}", near.unwrap_or_default()));
            }
        }
        self.properties.settings.set_override(&format!("{name}={value}")).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_what_if_takes_effect_or_is_refused() {
        let mut what_if = WhatIf::default();
        for setting in [
            "num.network.threads=80",
            "listener.name.a.num.network.threads=9",
            "jdk.nio.maxCachedBufferSize=0",
        ] {
            assert_eq!(what_if.set(setting), Ok(()), "{setting}");
        }
        assert_eq!(what_if.properties.number("num.network.threads").value, 80);
        assert_eq!(what_if.properties.listener_number("A", "num.network.threads").value, 9);
        assert_eq!(what_if.max_cached_buffer_bytes, Some(0));
        for (setting, reason) in [
            ("num.network.threads=abc", "invalid value abc for num.network.threads"),
            ("num.network.threads=-5", "must be at least 1"),
            ("num.network.threads=99999999999", "99999999999"),
            ("listener.name.a.num.network.threads=x", "invalid value x"),
            ("socket.request.max.bytes=1MiB", "no units"),
            ("num.netwrk.threads=9", "num.network.threads is the nearest"),
            ("nothing.like.it=9", "is no property of Kafka"),
            ("memory.budget.bytes=64MiB", "weir's own"),
            ("jdk.nio.maxCachedBufferSize=1m", "ignores 1m"),
            ("jdk.nio.maxCachedBuffersize=1048576", "letter by letter it is jdk.nio.maxCachedBufferSize"),
            ("nothing", "KEY=VALUE"),
        ] {
            let refused = what_if.set(setting).unwrap_err();
            assert!(refused.contains(reason), "{setting}: {refused}");
        }
        assert_eq!(what_if.properties.number("num.network.threads").value, 80);
    }
}
