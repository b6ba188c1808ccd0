//! One partition's log in Kafka's own files, and the log directories that hold them.
