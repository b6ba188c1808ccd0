//! Which topics the members of a consumer group subscribe to, read from the metadata they joined with.
//!
//! Only the prefix that all versions of ConsumerProtocolSubscription share is read: a version and the list of topics.
//! Nothing is copied and nothing is allocated by a promised length.

use std::collections::HashSet;

/// Calls `visit` with each topic of one subscription; false if the bytes are not a subscription (some topics may have been
/// visited then). Input is untrusted.
pub fn visit_subscription_topics<'a>(metadata: &'a [u8], mut visit: impl FnMut(&'a str)) -> bool {
    let mut walk = || -> Option<()> {
        let (version, rest) = metadata.split_first_chunk::<2>()?;
        if i16::from_be_bytes(*version) < 0 {
            return None;
        }
        let (count, mut rest) = rest.split_first_chunk::<4>()?;
        let count = u32::try_from(i32::from_be_bytes(*count)).ok()?;
        for _ in 0..count {
            let (length, after) = rest.split_first_chunk::<2>()?;
            let length = usize::try_from(i16::from_be_bytes(*length)).ok()?;
            let (name, after) = after.split_at_checked(length)?;
            visit(std::str::from_utf8(name).ok()?);
            rest = after;
        }
        Some(())
    };
    walk().is_some()
}

/// Those of some topics that a group consumes. Only they are held: members may subscribe to very many others, of very
/// short names.
#[derive(Debug)]
pub(crate) enum SubscribedTopics<'a> {
    /// Exactly these.
    These(HashSet<&'a str>),
    /// Not known: nothing may be taken for unused.
    Unknown,
}

impl<'a> SubscribedTopics<'a> {
    pub(crate) fn none() -> SubscribedTopics<'a> {
        SubscribedTopics::These(HashSet::new())
    }

    /// Of the topics that are asked for.
    pub(crate) fn of(
        metadata: impl Iterator<Item = &'a [u8]>,
        is_asked_for: impl Fn(&str) -> bool,
    ) -> SubscribedTopics<'a> {
        let mut topics = HashSet::new();
        for bytes in metadata {
            let is_readable = visit_subscription_topics(bytes, |topic| {
                if is_asked_for(topic) {
                    topics.insert(topic);
                }
            });
            if !is_readable {
                return SubscribedTopics::Unknown;
            }
        }
        SubscribedTopics::These(topics)
    }

    pub(crate) fn contains(&self, topic: &str) -> bool {
        match self {
            SubscribedTopics::These(topics) => topics.contains(topic),
            SubscribedTopics::Unknown => true,
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        matches!(self, SubscribedTopics::These(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(topics: &[&str]) -> Vec<u8> {
        let mut bytes = 3i16.to_be_bytes().to_vec();
        bytes.extend((topics.len() as i32).to_be_bytes());
        for topic in topics {
            bytes.extend((topic.len() as i16).to_be_bytes());
            bytes.extend(topic.as_bytes());
        }
        bytes.extend((-1i32).to_be_bytes());
        bytes
    }

    fn subscription_topics(metadata: &[u8]) -> Option<Vec<&str>> {
        let mut topics = Vec::new();
        visit_subscription_topics(metadata, |topic| topics.push(topic)).then_some(topics)
    }

    #[test]
    fn topics_are_read_whatever_follows_them() {
        assert_eq!(subscription_topics(&subscription(&["a", "orders"])), Some(vec!["a", "orders"]));
        assert_eq!(subscription_topics(&subscription(&[])), Some(vec![]));
    }

    #[test]
    fn a_promised_count_without_topics_is_refused() {
        assert_eq!(subscription_topics(&[0, 1, 0x7f, 0xff, 0xff, 0xff, 0, 0]), None);
        assert_eq!(subscription_topics(&[0, 1, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(subscription_topics(&[0xff, 0xff, 0, 0, 0, 0]), None);
        let whole = subscription(&["orders"]);
        for cut in 0..whole.len() - 4 {
            assert_eq!(subscription_topics(&whole[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn one_unreadable_member_makes_every_topic_count_as_subscribed() {
        let good = subscription(&["orders"]);
        let known = SubscribedTopics::of([good.as_slice()].into_iter(), |_| true);
        assert!(known.contains("orders") && !known.contains("other"));
        let unknown = SubscribedTopics::of([good.as_slice(), b"junk".as_slice()].into_iter(), |_| true);
        assert!(unknown.contains("other") && !unknown.is_known());
    }
}
