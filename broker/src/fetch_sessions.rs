//! Incremental fetch sessions (KIP-227): what a client asked for is kept, so that later requests and replies name
//! only what changed.
//!
//! Method: a session is a list of partitions with what was last told about each; the list is visited from a moving
//! start, so that a small `max_bytes` starves nobody. Sessions are limited by slots
//! (`max.incremental.fetch.session.cache.slots`) and by partitions in all (`max.fetch.session.partitions`); when
//! either is used up, the session that has idled longest gives way if it idled for two minutes, else the newcomer is
//! served without a session.
//!
//! Invariant: the partitions of all sessions together never exceed the limit that the plan charged.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_protocol::wire::Uuid;

/// A session may be evicted for another one after idling this long; Kafka uses the same figure.
const MIN_EVICTION: Duration = Duration::from_secs(120);

/// How a request names a topic: by id from version 13 on, by name before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TopicKey {
    /// Fetch v13 and newer.
    Id(Uuid),
    /// Fetch v12 and older.
    Name(Arc<str>),
}

/// What a client wants of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) topic: TopicKey,
    pub(crate) partition: i32,
    pub(crate) current_leader_epoch: i32,
    pub(crate) fetch_offset: i64,
    pub(crate) last_fetched_epoch: i32,
    pub(crate) max_bytes: i32,
}

/// A wanted partition and what the client was last told of it.
#[derive(Clone, Debug)]
pub(crate) struct Cached {
    pub(crate) wanted: Wanted,
    /// High watermark and log start offset of the last reply that named the partition; `None` before the first.
    pub(crate) told: Option<(i64, i64)>,
}

/// One session. Its lock is held while a reply is put together, never across a wait.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: i32,
    pub(crate) uses_topic_ids: bool,
    next_epoch: i32,
    partitions: Vec<Cached>,
    index: HashMap<(TopicKey, i32), usize>,
    start: usize,
}

impl Session {
    fn put(&mut self, wanted: Wanted) -> bool {
        let key = (wanted.topic.clone(), wanted.partition);
        if let Some(&at) = self.index.get(&key) {
            self.partitions[at].wanted = wanted;
            return false;
        }
        self.index.insert(key, self.partitions.len());
        self.partitions.push(Cached { wanted, told: None });
        true
    }

    fn forget(&mut self, key: &(TopicKey, i32)) -> bool {
        let Some(at) = self.index.remove(key) else { return false };
        self.partitions.swap_remove(at);
        if let Some(moved) = self.partitions.get(at) {
            self.index.insert((moved.wanted.topic.clone(), moved.wanted.partition), at);
        }
        true
    }

    /// Number of partitions.
    pub(crate) fn len(&self) -> usize {
        self.partitions.len()
    }

    /// The partitions in the order in which this reply should serve them, with their positions.
    pub(crate) fn visit(&mut self) -> impl Iterator<Item = (usize, &mut Cached)> {
        let start = if self.partitions.is_empty() { 0 } else { self.start % self.partitions.len() };
        let (behind, ahead) = self.partitions.split_at_mut(start);
        let ahead = ahead.iter_mut().enumerate().map(move |(i, cached)| (start + i, cached));
        ahead.chain(behind.iter_mut().enumerate())
    }

    /// Lets the next reply begin after the partition at `position`, the last that gave data in this one.
    pub(crate) fn rotate_after(&mut self, position: usize) {
        self.start = position + 1;
    }

    /// Notes what the client was told of a partition; `None` makes the next reply name it again.
    pub(crate) fn tell(&mut self, topic: &TopicKey, partition: i32, told: Option<(i64, i64)>) {
        if let Some(&at) = self.index.get(&(topic.clone(), partition)) {
            self.partitions[at].told = told;
        }
    }
}

/// Why a request cannot use the session it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionError {
    /// No such session: evicted, closed, or never there.
    NotFound,
    /// The request's epoch is not the next one.
    InvalidEpoch,
    /// The request names topics by id where the session names them by name, or the reverse.
    TopicIdMode,
}

/// How a request is to be served.
#[derive(Clone, Debug)]
pub(crate) enum Context {
    /// No session: every partition of the request is answered; `partitions` is a throw-away session.
    Sessionless(Arc<Mutex<Session>>),
    /// A new session: every partition is answered and kept.
    Full(Arc<Mutex<Session>>),
    /// A known session: only changes are answered.
    Incremental(Arc<Mutex<Session>>),
}

impl Context {
    /// The partitions to serve.
    pub(crate) fn session(&self) -> &Arc<Mutex<Session>> {
        match self {
            Context::Sessionless(session) | Context::Full(session) | Context::Incremental(session) => session,
        }
    }

    /// The session id to put into the reply; 0 for none.
    pub(crate) fn session_id(&self) -> i32 {
        match self {
            Context::Sessionless(_) => 0,
            Context::Full(session) | Context::Incremental(session) => session.lock().id,
        }
    }
}

#[derive(Debug)]
struct Slot {
    session: Arc<Mutex<Session>>,
    last_used: Instant,
    partitions: usize,
}

#[derive(Debug, Default)]
struct Table {
    slots: HashMap<i32, Slot>,
    partitions: usize,
    evictions: u64,
}

/// All sessions of the server.
#[derive(Debug)]
pub(crate) struct FetchSessions {
    max_slots: usize,
    max_partitions: usize,
    table: Mutex<Table>,
}

/// What a request says about sessions.
#[derive(Debug)]
pub(crate) struct SessionRequest {
    pub(crate) session_id: i32,
    pub(crate) epoch: i32,
    pub(crate) uses_topic_ids: bool,
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) forgotten: Vec<(TopicKey, i32)>,
}

impl FetchSessions {
    /// No sessions yet; the limits are those of the plan.
    pub(crate) fn new(max_slots: usize, max_partitions: usize) -> Self {
        FetchSessions { max_slots, max_partitions, table: Mutex::new(Table::default()) }
    }

    /// Sessions, their partitions, and evictions so far, for the metrics.
    pub(crate) fn figures(&self) -> (usize, usize, u64) {
        let table = self.table.lock();
        (table.slots.len(), table.partitions, table.evictions)
    }

    /// Finds or makes what the request is served from. `new_id` gives random numbers for new sessions.
    pub(crate) fn begin(
        &self,
        request: SessionRequest,
        now: Instant,
        mut new_id: impl FnMut() -> i32,
    ) -> Result<Context, SessionError> {
        const FINAL_EPOCH: i32 = -1;
        const INITIAL_EPOCH: i32 = 0;
        let mut table = self.table.lock();
        if request.epoch == FINAL_EPOCH || request.epoch == INITIAL_EPOCH {
            if request.session_id != 0 {
                table.remove(request.session_id);
            }
            let mut session = Session {
                id: 0,
                uses_topic_ids: request.uses_topic_ids,
                next_epoch: 1,
                partitions: Vec::with_capacity(request.wanted.len()),
                index: HashMap::new(),
                start: 0,
            };
            for wanted in request.wanted {
                session.put(wanted);
            }
            let count = session.partitions.len();
            if request.epoch == FINAL_EPOCH || !self.make_room(&mut table, count, now) {
                return Ok(Context::Sessionless(Arc::new(Mutex::new(session))));
            }
            let id = std::iter::repeat_with(|| new_id() & i32::MAX)
                .find(|id| *id != 0 && !table.slots.contains_key(id))
                .unwrap_or(0);
            session.id = id;
            let session = Arc::new(Mutex::new(session));
            table.partitions += count;
            table.slots.insert(id, Slot { session: Arc::clone(&session), last_used: now, partitions: count });
            return Ok(Context::Full(session));
        }
        let slot = table.slots.get_mut(&request.session_id).ok_or(SessionError::NotFound)?;
        let shared = Arc::clone(&slot.session);
        let mut session = shared.lock();
        if session.next_epoch != request.epoch {
            return Err(SessionError::InvalidEpoch);
        }
        // A request without topics says nothing about the mode: it keeps the session's.
        let names_topics = !request.wanted.is_empty() || !request.forgotten.is_empty();
        if names_topics && session.uses_topic_ids != request.uses_topic_ids {
            return Err(SessionError::TopicIdMode);
        }
        slot.last_used = now;
        let before = session.partitions.len();
        let added = request
            .wanted
            .iter()
            .filter(|wanted| !session.index.contains_key(&(wanted.topic.clone(), wanted.partition)))
            .count();
        let others = table.partitions - before;
        if others + before + added > self.max_partitions {
            // The client takes NotFound as the order to start a new session, which is then refused a slot.
            drop(session);
            table.remove(request.session_id);
            return Err(SessionError::NotFound);
        }
        for key in &request.forgotten {
            session.forget(key);
        }
        for wanted in request.wanted {
            session.put(wanted);
        }
        session.next_epoch = if session.next_epoch == i32::MAX { 1 } else { session.next_epoch + 1 };
        let after = session.partitions.len();
        drop(session);
        table.partitions = others + after;
        if let Some(slot) = table.slots.get_mut(&request.session_id) {
            slot.partitions = after;
        }
        Ok(Context::Incremental(shared))
    }

    fn make_room(&self, table: &mut Table, count: usize, now: Instant) -> bool {
        if count == 0 || count > self.max_partitions || self.max_slots == 0 {
            return false;
        }
        while table.slots.len() >= self.max_slots || table.partitions + count > self.max_partitions {
            let oldest = table
                .slots
                .iter()
                .min_by_key(|(_, slot)| slot.last_used)
                .map(|(id, slot)| (*id, slot.last_used));
            match oldest {
                Some((id, last_used)) if now.duration_since(last_used) >= MIN_EVICTION => {
                    table.remove(id);
                    table.evictions += 1;
                }
                _ => return false,
            }
        }
        true
    }
}

impl Table {
    fn remove(&mut self, id: i32) {
        if let Some(slot) = self.slots.remove(&id) {
            self.partitions -= slot.partitions;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(partition: i32, fetch_offset: i64) -> Wanted {
        Wanted {
            topic: TopicKey::Name(Arc::from("t")),
            partition,
            current_leader_epoch: -1,
            fetch_offset,
            last_fetched_epoch: -1,
            max_bytes: 1,
        }
    }

    fn request(session_id: i32, epoch: i32, wanted: Vec<Wanted>) -> SessionRequest {
        SessionRequest { session_id, epoch, uses_topic_ids: false, wanted, forgotten: Vec::new() }
    }

    fn positions(context: &Context) -> Vec<(i32, i64)> {
        let mut session = context.session().lock();
        session.visit().map(|(_, cached)| (cached.wanted.partition, cached.wanted.fetch_offset)).collect()
    }

    #[test]
    fn a_session_remembers_updates_forgets_and_counts_epochs() {
        let sessions = FetchSessions::new(10, 100);
        let now = Instant::now();
        let full = sessions.begin(request(0, 0, vec![wanted(0, 5), wanted(1, 6)]), now, || 42).unwrap();
        assert_eq!(full.session_id(), 42);
        let mut second = request(42, 1, vec![wanted(1, 9), wanted(2, 0)]);
        second.forgotten.push((TopicKey::Name(Arc::from("t")), 0));
        let context = sessions.begin(second, now, || 0).unwrap();
        let mut seen = positions(&context);
        seen.sort_unstable();
        assert_eq!(seen, [(1, 9), (2, 0)]);
        assert_eq!(
            sessions.begin(request(42, 1, vec![]), now, || 0).unwrap_err(),
            SessionError::InvalidEpoch
        );
        assert!(matches!(sessions.begin(request(42, 2, vec![]), now, || 0), Ok(Context::Incremental(_))));
        assert_eq!(sessions.begin(request(43, 2, vec![]), now, || 0).unwrap_err(), SessionError::NotFound);
        assert_eq!(sessions.figures(), (1, 2, 0));
    }

    #[test]
    fn the_final_epoch_closes_and_a_changed_topic_mode_is_refused() {
        let sessions = FetchSessions::new(10, 100);
        let now = Instant::now();
        sessions.begin(request(0, 0, vec![wanted(0, 0)]), now, || 7).unwrap();
        let by_id = SessionRequest { uses_topic_ids: true, ..request(7, 1, vec![wanted(0, 0)]) };
        assert_eq!(sessions.begin(by_id, now, || 0).unwrap_err(), SessionError::TopicIdMode);
        assert!(matches!(sessions.begin(request(7, -1, vec![]), now, || 0), Ok(Context::Sessionless(_))));
        assert_eq!(sessions.figures(), (0, 0, 0));
    }

    #[test]
    fn slots_and_partitions_are_limited_and_only_long_idle_sessions_give_way() {
        let sessions = FetchSessions::new(2, 5);
        let start = Instant::now();
        let mut id = 0;
        let mut open = |count: i32, now| {
            id += 1;
            let list = (0..count).map(|partition| wanted(partition, 0)).collect();
            sessions.begin(request(0, 0, list), now, || id).unwrap().session_id()
        };
        assert_eq!((open(2, start), open(2, start)), (1, 2));
        assert_eq!(open(1, start), 0, "both slots are taken");
        let later = start + MIN_EVICTION;
        assert_eq!(open(3, later), 4, "an idle one gives way");
        assert_eq!(sessions.figures().1, 5);
        let grow = request(4, 1, (0..4).map(|partition| wanted(partition, 0)).collect());
        assert_eq!(
            sessions.begin(grow, later, || 0).unwrap_err(),
            SessionError::NotFound,
            "beyond the partitions"
        );
        assert_eq!(sessions.figures().1, 2);
    }

    #[test]
    fn the_next_reply_starts_after_the_last_partition_that_gave_data() {
        let sessions = FetchSessions::new(2, 5);
        let context = sessions
            .begin(request(0, 0, (0..3).map(|p| wanted(p, 0)).collect()), Instant::now(), || 1)
            .unwrap();
        context.session().lock().rotate_after(0);
        assert_eq!(positions(&context).iter().map(|(p, _)| *p).collect::<Vec<_>>(), [1, 2, 0]);
        context.session().lock().rotate_after(2);
        assert_eq!(positions(&context).iter().map(|(p, _)| *p).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
