//! What a broker's thread does, from its name or from a stack that it left in a log.

use std::fmt;

/// The part of a broker that a thread belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadRole {
    /// A network thread (`kafka.network.Processor`).
    Network,
    /// A request handler.
    RequestHandler,
    /// A replica fetcher.
    ReplicaFetcher,
    /// A reader of tiered storage.
    RemoteLogReader,
    /// A log cleaner.
    LogCleaner,
    /// The KRaft thread.
    Raft,
    /// None of them, or not known.
    Other,
}

impl fmt::Display for ThreadRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Network => "network threads",
            Self::RequestHandler => "request handlers",
            Self::ReplicaFetcher => "replica fetchers",
            Self::RemoteLogReader => "remote-log readers",
            Self::LogCleaner => "log cleaners",
            Self::Raft => "KRaft",
            Self::Other => "other threads",
        })
    }
}

impl ThreadRole {
    /// The role that a frame or a logger's name gives away.
    pub fn of_frame(frame: &str) -> Option<Self> {
        [
            ("kafka.network.Processor", Self::Network),
            ("kafka.network.SocketServer", Self::Network),
            ("kafka.server.KafkaRequestHandler", Self::RequestHandler),
            ("ReplicaFetcherThread", Self::ReplicaFetcher),
            ("AbstractFetcherThread", Self::ReplicaFetcher),
            ("RemoteLogReader", Self::RemoteLogReader),
            ("kafka.log.LogCleaner", Self::LogCleaner),
            ("storage.internals.log.LogCleaner", Self::LogCleaner),
            ("KafkaRaftClient", Self::Raft),
        ]
        .into_iter()
        .find(|(part, _)| frame.contains(part))
        .map(|(_, role)| role)
    }

    /// The role of a thread by its name.
    pub fn of_name(name: &str) -> Self {
        [
            ("kafka-network-thread", Self::Network),
            ("kafka-request-handler", Self::RequestHandler),
            ("ReplicaFetcherThread", Self::ReplicaFetcher),
            ("remote-log-reader", Self::RemoteLogReader),
            ("kafka-log-cleaner-thread", Self::LogCleaner),
            ("raft-io-thread", Self::Raft),
        ]
        .into_iter()
        .find(|(part, _)| name.contains(part))
        .map_or(Self::Other, |(_, role)| role)
    }
}
