//! Incremental fetch sessions (KIP-227): what a client asked for is kept, so that later requests and replies name
//! only what changed.
//!
//! Method: a session is a sorted list of partitions with what was last told about each; the list is visited from a
//! moving start, so that a small `max_bytes` starves nobody. Sessions are limited by slots
//! (`max.incremental.fetch.session.cache.slots`) and by units in all (`max.fetch.session.partitions`): a partition is
//! one unit, the session itself and a name that no topic shares with it are a few more. When either is used up, the
//! session that has idled longest gives way if it idled for two minutes, else the newcomer is served without a session.
//!
//! Invariant: the units of all sessions together never exceed the limit that the plan charged.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_metadata::properties::keys;
use weir_protocol::wire::Uuid;

/// A session may be evicted for another one after idling this long; Kafka uses the same figure.
const MIN_EVICTION: Duration = Duration::from_secs(120);
/// Units of a session beside its partitions: itself and its slot.
const SESSION_UNITS: usize = 3;
/// Units of a name that is the session's own: that of a topic that does not exist.
const NAME_UNITS: usize = 3;
/// So many new partitions are put in their places one by one.
const FEW: usize = 16;
/// Longest name that a session keeps; no topic has a longer one.
const MAX_NAME_BYTES: usize = 249;
/// Names of topics that were deleted stay with the sessions that hold them: an eighth of the plan's term is for them.
const _: () = assert!(crate::plan::SESSION_PARTITION_BYTES as usize >= size_of::<Cached>() * 9 / 8 + 16);

/// How a request names a topic: by id from version 13 on, by name before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TopicKey {
    /// Fetch v13 and newer.
    Id(Uuid),
    /// Fetch v12 and older.
    Name(Arc<str>),
}

impl TopicKey {
    /// Bytes of the name, 0 for an id.
    pub(crate) fn name_bytes(&self) -> usize {
        match self {
            TopicKey::Id(_) => 0,
            TopicKey::Name(name) => name.len(),
        }
    }
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

impl Cached {
    fn key(&self) -> (&TopicKey, i32) {
        (&self.wanted.topic, self.wanted.partition)
    }
}

/// One session. Its lock is held while a reply is put together, never across a wait.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: i32,
    pub(crate) uses_topic_ids: bool,
    next_epoch: i32,
    /// By topic and number; in the client's order where the session is for one request only.
    partitions: Vec<Cached>,
    /// Names that are the session's own.
    own_names: usize,
    start: usize,
}

impl Session {
    fn find(&self, topic: &TopicKey, partition: i32) -> Result<usize, usize> {
        self.partitions.binary_search_by(|cached| cached.key().cmp(&(topic, partition)))
    }

    /// Takes what a request names; of what is named twice the last counts. Many new ones are sorted in at once: one by
    /// one, each would move all that lie behind it.
    fn put(&mut self, wanted: Vec<Wanted>) {
        let mut new = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            match self.find(&wanted.topic, wanted.partition) {
                Ok(at) => self.partitions[at].wanted = wanted,
                Err(_) => new.push(Cached { wanted, told: None }),
            }
        }
        sort(&mut new);
        let room = self.partitions.capacity() - self.partitions.len();
        if new.len() > room {
            self.partitions.reserve_exact(new.len().max(1 + self.partitions.len() / 8));
        }
        if new.len() > FEW {
            self.partitions.append(&mut new);
            self.partitions.sort_unstable_by(|a, b| a.key().cmp(&b.key()));
        }
        for cached in new {
            let (Ok(at) | Err(at)) = self.find(&cached.wanted.topic, cached.wanted.partition);
            self.partitions.insert(at, cached);
        }
    }

    fn forget(&mut self, mut forgotten: Vec<(TopicKey, i32)>) {
        if forgotten.is_empty() {
            return;
        }
        forgotten.sort_unstable();
        let is_forgotten = |cached: &Cached| {
            forgotten.binary_search_by(|(topic, partition)| (topic, *partition).cmp(&cached.key())).is_ok()
        };
        self.partitions.retain(|cached| !is_forgotten(cached));
        // What is not charged any more must not be held.
        let most = self.partitions.len() + self.partitions.len() / 8 + 1;
        if self.partitions.capacity() > most {
            self.partitions.shrink_to_fit();
        }
    }

    /// Sorts the partitions; of those that are named twice the last counts.
    fn sort(&mut self) {
        sort(&mut self.partitions);
        self.partitions.shrink_to_fit();
    }

    /// Number of partitions.
    pub(crate) fn len(&self) -> usize {
        self.partitions.len()
    }

    fn units(&self) -> usize {
        units(self.partitions.len(), self.own_names)
    }

    /// Bytes of names that a reply about all partitions repeats.
    pub(crate) fn name_bytes(&self) -> usize {
        self.partitions
            .chunk_by(|a, b| a.wanted.topic == b.wanted.topic)
            .filter_map(<[Cached]>::first)
            .map(|first| first.wanted.topic.name_bytes())
            .sum()
    }

    /// The partitions in the order in which this reply should serve them, with their positions.
    pub(crate) fn visit(&mut self) -> impl Iterator<Item = (usize, &mut Cached)> {
        let start = if self.partitions.is_empty() { 0 } else { self.start % self.partitions.len() };
        let (behind, ahead) = self.partitions.split_at_mut(start);
        let ahead = ahead.iter_mut().enumerate().map(move |(i, cached)| (start + i, cached));
        ahead.chain(behind.iter_mut().enumerate())
    }

    /// Lets the next reply begin after the partition at `position`: the last that gave data in this one, or that had
    /// room in it.
    pub(crate) fn rotate_after(&mut self, position: usize) {
        self.start = position + 1;
    }

    /// Notes what the client was told of a partition; `None` makes the next reply name it again.
    pub(crate) fn tell(&mut self, topic: &TopicKey, partition: i32, told: Option<(i64, i64)>) {
        if let Ok(at) = self.find(topic, partition) {
            self.partitions[at].told = told;
        }
    }
}

/// Sorts partitions; of those that are named twice the last counts.
fn sort(partitions: &mut Vec<Cached>) {
    partitions.reverse();
    // Stable, so that the last one named is the first of its key now, which is the one that stays.
    partitions.sort_by(|a, b| a.key().cmp(&b.key()));
    partitions.dedup_by(|a, b| a.key() == b.key());
}

fn units(partitions: usize, own_names: usize) -> usize {
    SESSION_UNITS + partitions + own_names * NAME_UNITS
}

/// Why a request cannot use the session it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionError {
    /// No such session: evicted, closed, or never there.
    NotFound,
    /// The session would grow beyond `max.fetch.session.partitions` and has been closed.
    Full,
    /// The request's epoch is not the next one.
    InvalidEpoch,
    /// The request is of a version that names topics by id where the session names them by name, or the reverse.
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
    units: usize,
}

#[derive(Debug, Default)]
struct Table {
    slots: HashMap<i32, Slot>,
    partitions: usize,
    units: usize,
    evictions: u64,
}

/// All sessions of the server.
#[derive(Debug)]
pub(crate) struct FetchSessions {
    max_slots: usize,
    max_units: usize,
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
    /// Names among `wanted` that no topic shares.
    pub(crate) own_names: usize,
}

impl SessionRequest {
    /// Whether a name is longer than any that a session may keep.
    fn is_too_long(&self) -> bool {
        self.wanted.iter().any(|wanted| wanted.topic.name_bytes() > MAX_NAME_BYTES)
    }
}

/// How a request is served, and the property of a limit that kept it from a session of its own.
pub(crate) type Begun = (Context, Option<&'static str>);

impl FetchSessions {
    /// No sessions yet; the limits are those of the plan.
    pub(crate) fn new(max_slots: usize, max_units: usize) -> Self {
        FetchSessions { max_slots, max_units, table: Mutex::new(Table::default()) }
    }

    /// Sessions, their partitions, and evictions so far, for the metrics.
    pub(crate) fn figures(&self) -> (usize, usize, u64) {
        let table = self.table.lock();
        (table.slots.len(), table.partitions, table.evictions)
    }

    /// The limits on slots and on units.
    pub(crate) fn limits(&self) -> (usize, usize) {
        (self.max_slots, self.max_units)
    }

    /// Finds or makes what the request is served from. `new_id` gives random numbers for new sessions.
    pub(crate) fn begin(
        &self,
        request: SessionRequest,
        now: Instant,
        mut new_id: impl FnMut() -> i32,
    ) -> Result<Begun, SessionError> {
        const FINAL_EPOCH: i32 = -1;
        const INITIAL_EPOCH: i32 = 0;
        if request.epoch == FINAL_EPOCH || request.epoch == INITIAL_EPOCH {
            let cannot_be_kept = request.is_too_long();
            let mut session = Session {
                id: 0,
                uses_topic_ids: request.uses_topic_ids,
                next_epoch: 1,
                partitions: request.wanted.into_iter().map(|wanted| Cached { wanted, told: None }).collect(),
                own_names: request.own_names,
                start: 0,
            };
            let sessionless = |session| Context::Sessionless(Arc::new(Mutex::new(session)));
            let is_kept = request.epoch == INITIAL_EPOCH && !cannot_be_kept;
            if is_kept {
                session.sort();
            }
            let mut table = self.table.lock();
            if request.session_id != 0 {
                table.remove(request.session_id);
            }
            if !is_kept {
                return Ok((sessionless(session), None));
            }
            if let Err(property) = self.make_room(&mut table, session.units(), now) {
                return Ok((sessionless(session), Some(property)));
            }
            let id = std::iter::repeat_with(|| new_id() & i32::MAX)
                .find(|id| *id != 0 && !table.slots.contains_key(id))
                .unwrap_or(0);
            session.id = id;
            let (partitions, units) = (session.len(), session.units());
            let session = Arc::new(Mutex::new(session));
            table.partitions += partitions;
            table.units += units;
            table.slots.insert(id, Slot { session: Arc::clone(&session), last_used: now, partitions, units });
            return Ok((Context::Full(session), None));
        }
        let mut table = self.table.lock();
        let all_units = table.units;
        let slot = table.slots.get_mut(&request.session_id).ok_or(SessionError::NotFound)?;
        let others = all_units - slot.units;
        let shared = Arc::clone(&slot.session);
        let mut session = shared.lock();
        if session.next_epoch != request.epoch {
            return Err(SessionError::InvalidEpoch);
        }
        // Also where the request names no topic: the reply to it would have to.
        if session.uses_topic_ids != request.uses_topic_ids {
            return Err(SessionError::TopicIdMode);
        }
        slot.last_used = now;
        let added = request
            .wanted
            .iter()
            .filter(|wanted| session.find(&wanted.topic, wanted.partition).is_err())
            .count();
        // Names are counted again although some may be known: the count is made anew only with the session.
        let own_names = session.own_names + request.own_names;
        let is_over = others + units(session.len() + added, own_names) > self.max_units;
        if is_over || request.is_too_long() {
            // The client takes NotFound as the order to start a new session, which is then refused a slot.
            drop(session);
            table.remove(request.session_id);
            return Err(if is_over { SessionError::Full } else { SessionError::NotFound });
        }
        session.own_names = own_names;
        session.put(request.wanted);
        session.forget(request.forgotten);
        session.next_epoch = if session.next_epoch == i32::MAX { 1 } else { session.next_epoch + 1 };
        let (partitions, units) = (session.len(), session.units());
        if partitions == 0 {
            // Nothing left to serve: the session ends with this answer.
            session.id = 0;
            drop(session);
            table.remove(request.session_id);
            return Ok((Context::Sessionless(shared), None));
        }
        drop(session);
        table.units = others + units;
        if let Some(slot) = table.slots.get_mut(&request.session_id) {
            let before = std::mem::replace(&mut slot.partitions, partitions);
            slot.units = units;
            table.partitions = table.partitions + partitions - before;
        }
        Ok((Context::Incremental(shared), None))
    }

    /// Makes room for a session of so many units, or says which property keeps it from coming.
    fn make_room(&self, table: &mut Table, units: usize, now: Instant) -> Result<(), &'static str> {
        const SLOTS: &str = keys::MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS.name;
        const PARTITIONS: &str = keys::MAX_FETCH_SESSION_PARTITIONS.name;
        if self.max_slots == 0 {
            return Err(SLOTS);
        }
        if units > self.max_units {
            return Err(PARTITIONS);
        }
        while table.slots.len() >= self.max_slots || table.units + units > self.max_units {
            let full = if table.slots.len() >= self.max_slots { SLOTS } else { PARTITIONS };
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
                _ => return Err(full),
            }
        }
        Ok(())
    }
}

impl Table {
    /// Ends a session. A fetch that still waits for it is answered with nothing: what is not charged any more must not
    /// be held.
    fn remove(&mut self, id: i32) {
        if let Some(slot) = self.slots.remove(&id) {
            slot.session.lock().partitions = Vec::new();
            self.partitions -= slot.partitions;
            self.units -= slot.units;
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
        SessionRequest {
            session_id,
            epoch,
            uses_topic_ids: false,
            wanted,
            forgotten: Vec::new(),
            own_names: 0,
        }
    }

    fn positions(context: &Context) -> Vec<(i32, i64)> {
        let mut session = context.session().lock();
        session.visit().map(|(_, cached)| (cached.wanted.partition, cached.wanted.fetch_offset)).collect()
    }

    #[test]
    fn a_session_remembers_updates_forgets_and_counts_epochs() {
        let sessions = FetchSessions::new(10, 100);
        let now = Instant::now();
        let (full, _) = sessions.begin(request(0, 0, vec![wanted(0, 5), wanted(1, 6)]), now, || 42).unwrap();
        assert_eq!(full.session_id(), 42);
        let mut second = request(42, 1, vec![wanted(1, 9), wanted(2, 0)]);
        second.forgotten.push((TopicKey::Name(Arc::from("t")), 0));
        let (context, _) = sessions.begin(second, now, || 0).unwrap();
        let mut seen = positions(&context);
        seen.sort_unstable();
        assert_eq!(seen, [(1, 9), (2, 0)]);
        assert_eq!(
            sessions.begin(request(42, 1, vec![]), now, || 0).unwrap_err(),
            SessionError::InvalidEpoch
        );
        assert!(matches!(
            sessions.begin(request(42, 2, vec![]), now, || 0),
            Ok((Context::Incremental(_), None))
        ));
        assert_eq!(sessions.begin(request(43, 2, vec![]), now, || 0).unwrap_err(), SessionError::NotFound);
        assert_eq!(sessions.figures(), (1, 2, 0));
    }

    #[test]
    fn a_session_without_partitions_can_begin_and_ends_when_it_loses_its_last() {
        let sessions = FetchSessions::new(10, 100);
        let now = Instant::now();
        assert_eq!(sessions.begin(request(0, 0, vec![]), now, || 9).unwrap().0.session_id(), 9);
        let mut forgets = request(9, 1, vec![wanted(0, 0)]);
        forgets.forgotten.push((TopicKey::Name(Arc::from("t")), 0));
        let context = sessions.begin(forgets, now, || 0).unwrap().0;
        assert_eq!((context.session_id(), positions(&context)), (0, vec![]));
        assert_eq!(sessions.begin(request(9, 2, vec![]), now, || 0).unwrap_err(), SessionError::NotFound);
        assert_eq!(sessions.figures(), (0, 0, 0));
    }

    #[test]
    fn the_final_epoch_closes_and_a_changed_topic_mode_is_refused() {
        let sessions = FetchSessions::new(10, 100);
        let now = Instant::now();
        sessions.begin(request(0, 0, vec![wanted(0, 0)]), now, || 7).unwrap();
        for list in [vec![wanted(0, 0)], vec![]] {
            let by_id = SessionRequest { uses_topic_ids: true, ..request(7, 1, list) };
            assert_eq!(sessions.begin(by_id, now, || 0).unwrap_err(), SessionError::TopicIdMode);
        }
        assert!(matches!(
            sessions.begin(request(7, -1, vec![]), now, || 0),
            Ok((Context::Sessionless(_), None))
        ));
        assert_eq!(sessions.figures(), (0, 0, 0));
    }

    #[test]
    fn slots_and_partitions_are_limited_and_only_long_idle_sessions_give_way() {
        let sessions = FetchSessions::new(2, 5 + 2 * SESSION_UNITS);
        let start = Instant::now();
        let mut id = 0;
        let mut open = |count: i32, now| {
            id += 1;
            let list = (0..count).map(|partition| wanted(partition, 0)).collect();
            let (context, limit) = sessions.begin(request(0, 0, list), now, || id).unwrap();
            (context.session_id(), limit)
        };
        let slots = Some("max.incremental.fetch.session.cache.slots");
        let partitions = Some("max.fetch.session.partitions");
        assert_eq!((open(2, start), open(2, start)), ((1, None), (2, None)));
        assert_eq!(open(1, start), (0, slots), "both slots are taken");
        assert_eq!(open(100, start), (0, partitions), "it never fits");
        let later = start + MIN_EVICTION;
        assert_eq!(open(3, later), (5, None), "an idle one gives way");
        assert_eq!(sessions.figures().1, 5);
        let grow = request(5, 1, (0..4).map(|partition| wanted(partition, 0)).collect());
        assert_eq!(
            sessions.begin(grow, later, || 0).unwrap_err(),
            SessionError::Full,
            "beyond the partitions"
        );
        assert_eq!(sessions.figures().1, 2);
        assert_eq!(sessions.table.lock().units, 2 + SESSION_UNITS);
    }

    #[test]
    fn names_of_unknown_topics_are_charged_and_those_that_no_topic_can_have_are_not_kept() {
        let sessions = FetchSessions::new(9, SESSION_UNITS + 1 + NAME_UNITS);
        let named = |name: &str| {
            let list = vec![Wanted { topic: TopicKey::Name(Arc::from(name)), ..wanted(0, 0) }];
            SessionRequest { own_names: 1, ..request(0, 0, list) }
        };
        let begin = |request| sessions.begin(request, Instant::now(), || 1).unwrap().0.session_id();
        assert_eq!(begin(named(&"x".repeat(MAX_NAME_BYTES + 1))), 0);
        assert_eq!(begin(named("nowhere")), 1);
        assert_eq!(sessions.table.lock().units, SESSION_UNITS + 1 + NAME_UNITS);
        assert_eq!(begin(named("elsewhere")), 0, "the units are used up");
    }

    #[test]
    fn the_next_reply_starts_after_the_last_partition_that_gave_data() {
        let sessions = FetchSessions::new(2, 50);
        let (context, _) = sessions
            .begin(request(0, 0, (0..3).map(|p| wanted(p, 0)).collect()), Instant::now(), || 1)
            .unwrap();
        context.session().lock().rotate_after(0);
        assert_eq!(positions(&context).iter().map(|(p, _)| *p).collect::<Vec<_>>(), [1, 2, 0]);
        context.session().lock().rotate_after(2);
        assert_eq!(positions(&context).iter().map(|(p, _)| *p).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_session_that_ended_holds_nothing_also_where_a_fetch_still_waits_for_it() {
        let sessions = FetchSessions::new(2, 100);
        let now = Instant::now();
        let (waits, _) = sessions.begin(request(0, 0, vec![wanted(0, 0)]), now, || 7).unwrap();
        assert!(matches!(
            sessions.begin(request(7, -1, vec![]), now, || 0),
            Ok((Context::Sessionless(_), _))
        ));
        assert_eq!((waits.session_id(), waits.session().lock().partitions.capacity()), (7, 0));
    }

    #[test]
    fn many_partitions_come_and_go_at_once_as_one_by_one() {
        let sessions = FetchSessions::new(2, 5000);
        let now = Instant::now();
        let each = |range: std::ops::Range<i32>| range.map(|partition| wanted(partition, 1)).rev();
        let list = each(0..1000).filter(|it| it.partition % 3 == 0).collect();
        sessions.begin(request(0, 0, list), now, || 1).unwrap();
        // Known ones, new ones in front, between and behind, some of them twice.
        let mut list: Vec<Wanted> = each(0..1200).collect();
        list.extend((0..1200).filter(|partition| partition % 2 == 0).map(|partition| wanted(partition, 2)));
        let (context, _) = sessions.begin(request(1, 1, list), now, || 0).unwrap();
        let expected = |partition: i32| (partition, if partition % 2 == 0 { 2 } else { 1 });
        assert_eq!(positions(&context), (0..1200).map(expected).collect::<Vec<_>>());
        let mut forgets = request(1, 2, vec![wanted(5000, 3), wanted(-1, 3)]);
        forgets.forgotten = (1..3000).rev().map(|number| (TopicKey::Name(Arc::from("t")), number)).collect();
        let (context, _) = sessions.begin(forgets, now, || 0).unwrap();
        assert_eq!(positions(&context), [(-1, 3), (0, 2), (5000, 3)]);
        assert_eq!(sessions.figures().1, 3);
        // Nor is the room for the others kept, which is charged no more.
        assert!(context.session().lock().partitions.capacity() <= 4);
    }

    #[test]
    fn of_a_partition_that_is_named_twice_the_last_counts() {
        let sessions = FetchSessions::new(2, 50);
        let list = vec![wanted(1, 1), wanted(0, 2), wanted(1, 3)];
        let (context, _) = sessions.begin(request(0, 0, list), Instant::now(), || 1).unwrap();
        assert_eq!(positions(&context), [(0, 2), (1, 3)]);
    }
}
