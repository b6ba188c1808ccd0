//! Domain errors to Kafka's error codes: the only place where the two meet.

use weir_coordinator::GroupError;
use weir_protocol::messages::ErrorCode;
use weir_storage::StorageError;

use crate::quorum::ControllerError;

/// The code that a client understands for what a log refused.
pub(crate) fn storage_code(error: &StorageError) -> ErrorCode {
    match error {
        StorageError::OffsetOutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
        // Clients hand it to the application; most other errors of a read they only retry.
        StorageError::CorruptBatch { .. } | StorageError::SegmentGap { .. } => ErrorCode::CORRUPT_MESSAGE,
        StorageError::OutOfOrderSequence { .. } => ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        StorageError::InvalidProducerEpoch { .. } => ErrorCode::INVALID_PRODUCER_EPOCH,
        StorageError::TransactionCoordinatorFenced { .. } => ErrorCode::TRANSACTION_COORDINATOR_FENCED,
        StorageError::InvalidTxnState { .. } => ErrorCode::INVALID_TXN_STATE,
        StorageError::InvalidBatch { .. } => ErrorCode::INVALID_RECORD,
        StorageError::BatchTooLarge { .. } => ErrorCode::RECORD_LIST_TOO_LARGE,
        // Clients take it as a passing state of the broker and send the batch again.
        StorageError::TooManyProducerIds { .. } | StorageError::TooManySegments { .. } => {
            ErrorCode::NOT_ENOUGH_REPLICAS
        }
        StorageError::Closed { .. } | StorageError::UnknownLog { .. } => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        StorageError::TopicIdMismatch { .. } => ErrorCode::INCONSISTENT_TOPIC_ID,
        error if error.is_disk_failure() => ErrorCode::KAFKA_STORAGE_ERROR,
        _ => ErrorCode::UNKNOWN_SERVER_ERROR,
    }
}

/// The code that a client understands for what the group coordinator refused.
pub(crate) fn group_code(error: &GroupError) -> ErrorCode {
    match error {
        GroupError::CoordinatorLoadInProgress => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        GroupError::NotCoordinator => ErrorCode::NOT_COORDINATOR,
        GroupError::CoordinatorNotAvailable { .. } => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        GroupError::InvalidGroupId => ErrorCode::INVALID_GROUP_ID,
        GroupError::InvalidSessionTimeout { .. } => ErrorCode::INVALID_SESSION_TIMEOUT,
        GroupError::UnknownMemberId => ErrorCode::UNKNOWN_MEMBER_ID,
        GroupError::MemberIdRequired => ErrorCode::MEMBER_ID_REQUIRED,
        GroupError::IllegalGeneration { .. } => ErrorCode::ILLEGAL_GENERATION,
        GroupError::RebalanceInProgress => ErrorCode::REBALANCE_IN_PROGRESS,
        GroupError::InconsistentGroupProtocol => ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
        GroupError::FencedInstanceId => ErrorCode::FENCED_INSTANCE_ID,
        GroupError::GroupMaxSizeReached { .. } => ErrorCode::GROUP_MAX_SIZE_REACHED,
        GroupError::MessageTooLarge { .. } => ErrorCode::MESSAGE_TOO_LARGE,
        GroupError::OffsetMetadataTooLarge { .. } => ErrorCode::OFFSET_METADATA_TOO_LARGE,
        GroupError::InvalidCommitOffsetSize { .. } => ErrorCode::INVALID_COMMIT_OFFSET_SIZE,
        GroupError::NonEmptyGroup => ErrorCode::NON_EMPTY_GROUP,
        GroupError::GroupIdNotFound { .. } => ErrorCode::GROUP_ID_NOT_FOUND,
        GroupError::GroupSubscribedToTopic => ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC,
        GroupError::UnknownServerError => ErrorCode::UNKNOWN_SERVER_ERROR,
    }
}

/// [`group_code`] of an optional error.
pub(crate) fn group_result(error: Option<&GroupError>) -> ErrorCode {
    error.map_or(ErrorCode::NONE, group_code)
}

/// The code that a client understands for a command that the controller could not carry out. Two are worth another try: a
/// full disk recovers, and a stopping server is followed by another. What panicked would only panic again.
pub(crate) fn controller_code(error: &ControllerError) -> ErrorCode {
    match error {
        ControllerError::Log(_) => ErrorCode::KAFKA_STORAGE_ERROR,
        ControllerError::Stopping => ErrorCode::NOT_CONTROLLER,
        ControllerError::Panicked(_) => ErrorCode::UNKNOWN_SERVER_ERROR,
    }
}
