//! What a broker's thread does, from its name or from a stack that it left in a log.

use std::fmt;

use crate::language::{Text, text};

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
        f.write_str(&self.label().en)
    }
}

impl ThreadRole {
    /// Its name in a report.
    pub fn label(&self) -> Text {
        match self {
            Self::Network => text!("network threads", "网络线程"),
            Self::RequestHandler => text!("request handlers", "请求处理线程"),
            Self::ReplicaFetcher => text!("replica fetchers", "副本拉取线程"),
            Self::RemoteLogReader => text!("remote-log readers", "远程日志读取线程"),
            Self::LogCleaner => text!("log cleaners", "日志清理线程"),
            Self::Raft => text!("KRaft", "KRaft 线程"),
            Self::Other => text!("other threads", "其他线程"),
        }
    }

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
