//! Domain errors to Kafka's error codes: the only place where the two meet.

use weir_protocol::messages::ErrorCode;
use weir_storage::StorageError;

/// The code that a client understands for what a log refused.
pub(crate) fn storage_code(error: &StorageError) -> ErrorCode {
    match error {
        StorageError::OffsetOutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
        StorageError::CorruptBatch { .. } => ErrorCode::CORRUPT_MESSAGE,
        StorageError::OutOfOrderSequence { .. } => ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        StorageError::InvalidProducerEpoch { .. } => ErrorCode::INVALID_PRODUCER_EPOCH,
        StorageError::TransactionCoordinatorFenced { .. } => ErrorCode::TRANSACTION_COORDINATOR_FENCED,
        StorageError::InvalidTxnState { .. } => ErrorCode::INVALID_TXN_STATE,
        StorageError::InvalidBatch { .. } => ErrorCode::INVALID_RECORD,
        StorageError::BatchTooLarge { .. } => ErrorCode::RECORD_LIST_TOO_LARGE,
        // Clients take it as a passing state of the broker and send the batch again.
        StorageError::TooManyProducerIds { .. } => ErrorCode::NOT_ENOUGH_REPLICAS,
        StorageError::Closed { .. } | StorageError::UnknownLog { .. } => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        StorageError::TopicIdMismatch { .. } => ErrorCode::INCONSISTENT_TOPIC_ID,
        error if error.is_disk_failure() => ErrorCode::KAFKA_STORAGE_ERROR,
        _ => ErrorCode::UNKNOWN_SERVER_ERROR,
    }
}
