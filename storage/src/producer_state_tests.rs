use super::*;

fn name() -> TopicPartition {
    TopicPartition::new("t", 0)
}

fn state() -> ProducerState {
    ProducerState::new(ProducerIdQuota::new(100))
}

fn batch(producer_id: i64, epoch: i16, first_sequence: i32, records: i32, offset: i64) -> BatchHeader {
    BatchHeader {
        producer_id,
        producer_epoch: epoch,
        base_sequence: first_sequence,
        base_offset: offset,
        last_offset_delta: records - 1,
        record_count: records,
        max_timestamp: 1000 + offset,
        ..BatchHeader::default()
    }
}

fn check(state: &ProducerState, header: &BatchHeader) -> Result<Check, StorageError> {
    state.check(&name(), header, None, AppendOrigin::Client)
}

fn append(state: &mut ProducerState, header: &BatchHeader) {
    assert_eq!(check(state, header).unwrap(), Check::Accept);
    state.apply(header, None, header.max_timestamp);
}

#[test]
fn sequences_must_follow_and_wrap_at_the_largest_one() {
    let mut state = state();
    append(&mut state, &batch(7, 0, i32::MAX - 2, 3, 0));
    append(&mut state, &batch(7, 0, 0, 2, 3));
    append(&mut state, &batch(7, 0, 2, 1, 5));
    for wrong in [0, 1, 4, 100, i32::MAX] {
        let error = check(&state, &batch(7, 0, wrong, 5, 6)).unwrap_err();
        assert!(matches!(error, StorageError::OutOfOrderSequence { last_sequence: 2, .. }), "{error}");
    }
    let mut wrapping = ProducerState::new(ProducerIdQuota::new(1));
    append(&mut wrapping, &batch(7, 0, i32::MAX - 1, 5, 0));
    assert_eq!(wrapping.get(7).unwrap().last_sequence(), 2);
    assert_eq!(wrapping.get(7).unwrap().batches()[0].first_sequence(), i32::MAX - 1);
}

#[test]
fn each_of_the_last_five_batches_may_come_again_and_older_ones_may_not() {
    let mut state = state();
    for n in 0..8 {
        append(&mut state, &batch(7, 0, n * 10, 10, i64::from(n) * 100));
    }
    for n in 0..8 {
        let again = check(&state, &batch(7, 0, n * 10, 10, 999));
        if n < 3 {
            assert!(matches!(again, Err(StorageError::OutOfOrderSequence { .. })), "{n}");
        } else {
            let Ok(Check::Duplicate(known)) = again else { panic!("{n}: {again:?}") };
            assert_eq!(
                (known.first_offset(), known.last_offset),
                (i64::from(n) * 100, i64::from(n) * 100 + 9)
            );
        }
    }
    // The same first sequence with another count is not the same batch.
    check(&state, &batch(7, 0, 70, 9, 999)).unwrap_err();
}

#[test]
fn an_unknown_producer_may_begin_anywhere_and_a_new_epoch_only_at_zero() {
    let mut state = state();
    append(&mut state, &batch(7, 3, 1234, 1, 0));
    assert!(matches!(check(&state, &batch(7, 4, 1235, 1, 1)), Err(StorageError::OutOfOrderSequence { .. })));
    let error = check(&state, &batch(7, 2, 0, 1, 1)).unwrap_err();
    assert!(matches!(error, StorageError::InvalidProducerEpoch { epoch: 2, last_epoch: 3, .. }), "{error}");
    append(&mut state, &batch(7, 4, 0, 1, 1));
    assert_eq!(state.get(7).unwrap().batches().len(), 1, "batches of the old epoch are forgotten");
}

#[test]
fn open_transactions_hold_back_the_last_stable_offset_until_their_marker() {
    let mut state = state();
    let mut first = batch(1, 0, 0, 1, 10);
    first.set_transactional(true);
    let mut second = batch(2, 0, 0, 1, 11);
    second.set_transactional(true);
    append(&mut state, &first);
    append(&mut state, &second);
    assert_eq!(state.first_unstable_offset(), Some(10));
    let error = check(&state, &batch(1, 0, 1, 1, 12)).unwrap_err();
    assert!(matches!(error, StorageError::InvalidTxnState { producer_id: 1, .. }), "{error}");
    let mut end = batch(1, 0, -1, 1, 12);
    end.set_transactional(true);
    end.set_control(true);
    let marker = ControlMarker { kind: MarkerType::Abort, coordinator_epoch: 5, timestamp: 77 };
    let completed = state.apply(&end, Some(&marker), 77).unwrap();
    let aborted = state.complete(&completed).unwrap();
    assert_eq!(
        aborted,
        AbortedTxn { producer_id: 1, first_offset: 10, last_offset: 12, last_stable_offset: 11 }
    );
    assert_eq!(state.first_unstable_offset(), Some(10), "the marker is above the high watermark");
    state.on_high_watermark(13);
    assert_eq!(state.first_unstable_offset(), Some(11));
    let stale = ControlMarker { kind: MarkerType::Commit, coordinator_epoch: 4, timestamp: 78 };
    let error = state.check(&name(), &end, Some(&stale), AppendOrigin::Coordinator).unwrap_err();
    assert!(
        matches!(error, StorageError::TransactionCoordinatorFenced { epoch: 4, last_epoch: 5, .. }),
        "{error}"
    );
    // A marker without data in this partition ends nothing.
    end.base_offset = 13;
    assert_eq!(state.apply(&end, Some(&marker), 77), None);
}

#[test]
fn a_snapshot_keeps_what_recognises_the_last_batch_and_forgets_the_expired() {
    let mut state = state();
    append(&mut state, &batch(1, 0, 0, 10, 0));
    append(&mut state, &batch(2, 0, 5, 1, 10));
    let mut open = batch(3, 0, 0, 1, 11);
    open.set_transactional(true);
    append(&mut state, &open);
    let entries = state.snapshot_entries();
    let mut loaded = ProducerState::new(ProducerIdQuota::new(100));
    loaded.load(12, &entries, 2000, 10_000);
    assert_eq!(loaded.len(), 3);
    assert_eq!(loaded.first_unstable_offset(), Some(11));
    assert!(matches!(check(&loaded, &batch(1, 0, 0, 10, 12)), Ok(Check::Duplicate(_))));
    // Producer 1 was silent for too long, or its records are of long ago; 3 has an open transaction.
    loaded.load(12, &entries, 2005, 1000);
    assert_eq!(loaded.len(), 3, "it may send its last batch again");
    assert_eq!(loaded.remove_expired(3005, 1000), 2);
    let mut full = ProducerState::new(ProducerIdQuota::new(1));
    full.load(12, &entries, 2015, 1000);
    assert_eq!(full.len(), 2, "one without room for it, one whose transaction is open");
}

#[test]
fn the_quota_counts_over_all_logs_and_is_given_back() {
    let quota = ProducerIdQuota::new(3);
    let mut first = ProducerState::new(Arc::clone(&quota));
    let mut second = ProducerState::new(Arc::clone(&quota));
    append(&mut first, &batch(1, 0, 0, 1, 0));
    append(&mut first, &batch(2, 0, 0, 1, 1));
    append(&mut second, &batch(1, 0, 0, 1, 0));
    let error = check(&second, &batch(9, 0, 0, 1, 1)).unwrap_err();
    assert!(matches!(error, StorageError::TooManyProducerIds { limit: 3, .. }), "{error}");
    append(&mut second, &batch(1, 0, 1, 1, 1));
    assert_eq!(first.remove_expired(1000 + 500, 500), 1);
    append(&mut second, &batch(9, 0, 0, 1, 2));
    drop(first);
    assert_eq!(quota.used(), 2);
    drop(second);
    assert_eq!(quota.used(), 0);
}
