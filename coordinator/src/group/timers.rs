//! The timers of a group: sessions, ids that were given out, the join phase, the wait for SyncGroup.
//!
//! The shard keeps one wake-up per group. Moving a timer back, as every heartbeat does, leaves it alone; the group is then
//! looked at once too early and finds the true time.

use std::sync::Arc;

use super::Group;

/// When the join phase ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JoinTimer {
    pub(crate) deadline_ms: i64,
    /// The first rebalance of an empty group may be put off once more: (this delay, what is left for further ones).
    pub(crate) initial: Option<(i32, i32)>,
}

/// Something of a group whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Due {
    Session(Arc<str>),
    PendingMember(Arc<str>),
    Join,
    Sync,
}

impl Group {
    /// The shard must look at this group at `deadline_ms` at the latest.
    pub(crate) fn note_deadline(&mut self, deadline_ms: i64) {
        self.wake_ms = self.wake_ms.min(deadline_ms);
    }

    pub(crate) fn set_join_timer(&mut self, timer: JoinTimer) {
        self.note_deadline(timer.deadline_ms);
        self.join_timer = Some(timer);
    }

    pub(crate) fn cancel_join_timer(&mut self) {
        self.join_timer = None;
    }

    pub(crate) fn set_sync_deadline(&mut self, deadline_ms: i64) {
        self.note_deadline(deadline_ms);
        self.sync_deadline_ms = Some(deadline_ms);
    }

    /// Everything whose time has come, the earliest first, and sets `wake_ms` to the earliest of the rest.
    pub(crate) fn take_due(&mut self, now_ms: i64) -> Vec<Due> {
        let mut due: Vec<(i64, Due)> = Vec::new();
        let mut wake_ms = i64::MAX;
        let mut look = |deadline_ms: i64, what: &dyn Fn() -> Due| {
            if deadline_ms <= now_ms {
                due.push((deadline_ms, what()))
            } else {
                wake_ms = wake_ms.min(deadline_ms)
            }
        };
        for member in self.members.values() {
            if let Some(deadline) = member.session_deadline_ms {
                look(deadline, &|| Due::Session(Arc::clone(&member.id)));
            }
        }
        for (id, deadline) in &self.pending_members {
            look(*deadline, &|| Due::PendingMember(Arc::clone(id)));
        }
        if let Some(timer) = self.join_timer {
            look(timer.deadline_ms, &|| Due::Join);
        }
        if let Some(deadline) = self.sync_deadline_ms {
            look(deadline, &|| Due::Sync);
        }
        self.wake_ms = wake_ms;
        due.sort_by_key(|(deadline, _)| *deadline);
        due.into_iter().map(|(_, what)| what).collect()
    }

    /// Whether something found due still is: an earlier one may have removed or moved it.
    pub(crate) fn is_still_due(&self, due: &Due, now_ms: i64) -> bool {
        let deadline = match due {
            Due::Session(id) => self.members.get(id).and_then(|member| member.session_deadline_ms),
            Due::PendingMember(id) => self.pending_members.get(id).copied(),
            Due::Join => self.join_timer.map(|timer| timer.deadline_ms),
            Due::Sync => self.sync_deadline_ms,
        };
        deadline.is_some_and(|deadline| deadline <= now_ms)
    }
}
