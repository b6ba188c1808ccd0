//! What can be read of a shard without changing it: offsets, lists and descriptions of groups, counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::command::JoinedMember;
use crate::error::GroupError;
use crate::group::{Group, GroupState};
use crate::offsets::CommittedOffset;
use crate::shard::Shard;

/// From this version on DescribeGroups answers GROUP_ID_NOT_FOUND for an unknown group (KIP-1043).
const DESCRIBE_NOT_FOUND_VERSION: i16 = 6;

/// A group in ListGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    /// Group id.
    pub group_id: Arc<str>,
    /// Protocol type; empty for a group that only holds offsets.
    pub protocol_type: Arc<str>,
    /// State.
    pub state: GroupState,
    /// Type of the group: always `classic` here.
    pub group_type: &'static str,
}

/// A group in DescribeGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedGroup {
    /// Set for an unknown group from v6 on; its text is the answer's error message.
    pub error: Option<GroupError>,
    /// Group id.
    pub group_id: Arc<str>,
    /// State; Dead if the group is not known.
    pub state: GroupState,
    /// Protocol type, or empty.
    pub protocol_type: Arc<str>,
    /// The chosen protocol in a stable group, else empty.
    pub protocol: Arc<str>,
    /// Its members.
    pub members: Vec<DescribedMember>,
}

/// A member in DescribeGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedMember {
    /// Member id.
    pub member_id: Arc<str>,
    /// `group.instance.id`.
    pub group_instance_id: Option<Arc<str>>,
    /// `client.id`.
    pub client_id: Arc<str>,
    /// Peer address.
    pub client_host: Arc<str>,
    /// Metadata of the chosen protocol in a stable group, else empty.
    pub metadata: Arc<[u8]>,
    /// Its assignment.
    pub assignment: Arc<[u8]>,
}

/// The committed offsets of one group. All of them are in the log.
#[derive(Debug, Clone, Copy)]
pub struct OffsetsView<'a> {
    group: Option<&'a Group>,
}

impl<'a> OffsetsView<'a> {
    /// The offset of a partition, if one is committed.
    pub fn get(&self, topic: &str, partition: i32) -> Option<&'a CommittedOffset> {
        self.group?.offsets.get(topic, partition)
    }

    /// All offsets, ordered by topic and partition.
    pub fn iter(&self) -> impl Iterator<Item = (&'a Arc<str>, i32, &'a CommittedOffset)> {
        self.group.into_iter().flat_map(|group| group.offsets.iter())
    }

    /// All offsets by topic, ordered: a topic's name and its (partition, offset) pairs.
    pub fn by_topic(&self) -> impl ExactSizeIterator<Item = (&'a Arc<str>, &'a [(i32, CommittedOffset)])> {
        self.group
            .map_or(&[][..], |group| group.offsets.by_topic())
            .iter()
            .map(|(topic, all)| (topic, &all[..]))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.group.map_or(0, |group| group.offsets.count())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Counts for metrics, each since the shard was made, or at this moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardStats {
    /// Groups by state.
    pub groups: BTreeMap<GroupState, usize>,
    /// Members in all groups.
    pub members: usize,
    /// Committed offsets.
    pub offsets: usize,
    /// JoinGroup and SyncGroup requests that wait.
    pub parked: usize,
    /// Offsets committed so far.
    pub offset_commits: u64,
    /// Offsets whose retention passed so far.
    pub offset_expirations: u64,
    /// Offsets deleted on request or with their topic so far.
    pub offset_deletions: u64,
    /// Rebalances that ended in a stable group so far.
    pub completed_rebalances: u64,
}

impl Shard {
    /// The group's offsets for OffsetFetch; empty for an unknown group.
    pub fn offsets(&self, group_id: &str) -> Result<OffsetsView<'_>, GroupError> {
        self.check_serving()?;
        Ok(OffsetsView { group: self.groups.get(group_id).map(|group| &**group) })
    }

    /// The groups whose state and type pass the filters; an empty filter passes all. Letters' case does not matter.
    pub fn list_groups(&self, states: &[String], types: &[String]) -> Result<Vec<ListedGroup>, GroupError> {
        let mut groups = Vec::new();
        self.visit_groups(states, types, |group| groups.push(group))?;
        Ok(groups)
    }

    /// As [`Shard::list_groups`], one by one, so that no list of them is held.
    pub fn visit_groups(
        &self,
        states: &[String],
        types: &[String],
        mut visit: impl FnMut(ListedGroup),
    ) -> Result<(), GroupError> {
        self.check_serving()?;
        let passes = |filter: &[String], name: &str| {
            filter.is_empty() || filter.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(name))
        };
        let group_type = "classic";
        if !passes(types, group_type) {
            return Ok(());
        }
        let groups = self.groups.values().filter(|group| passes(states, group.state().as_str()));
        groups.for_each(|group| {
            visit(ListedGroup {
                group_id: Arc::clone(&group.id),
                protocol_type: or_empty(group.protocol_type()),
                state: group.state(),
                group_type,
            });
        });
        Ok(())
    }

    /// What the leader was told of the members of this generation, once more; `None` if the group has moved on.
    pub fn members_of_generation(&self, group_id: &str, generation_id: i32) -> Option<Vec<JoinedMember>> {
        let group = self.groups.get(group_id).filter(|group| group.generation == generation_id)?;
        if !matches!(group.state(), GroupState::CompletingRebalance | GroupState::Stable) {
            return None;
        }
        let protocol = group.protocol_name().map(|name| &**name);
        Some(group.members().map(|member| member.as_joined(protocol)).collect())
    }

    /// What the member was assigned in this generation, once more; `None` if the group has moved on.
    pub fn assignment_of(&self, group_id: &str, generation_id: i32, member_id: &str) -> Option<Arc<[u8]>> {
        let group = self.groups.get(group_id).filter(|group| group.generation == generation_id)?;
        if !group.is_in(GroupState::Stable) {
            return None;
        }
        group.member(member_id).map(|member| Arc::clone(&member.assignment))
    }

    /// Describes one group for DescribeGroups of `api_version`.
    pub fn describe_group(&self, group_id: &str, api_version: i16) -> Result<DescribedGroup, GroupError> {
        self.check_serving()?;
        let Some(group) = self.groups.get(group_id) else {
            let not_found = GroupError::GroupIdNotFound { group_id: group_id.to_owned() };
            return Ok(DescribedGroup {
                error: (api_version >= DESCRIBE_NOT_FOUND_VERSION).then_some(not_found),
                group_id: Arc::from(group_id),
                state: GroupState::Dead,
                protocol_type: Arc::from(""),
                protocol: Arc::from(""),
                members: Vec::new(),
            });
        };
        let protocol = if group.is_in(GroupState::Stable) { group.protocol_name() } else { None };
        let members = group.members().map(|member| DescribedMember {
            member_id: Arc::clone(&member.id),
            group_instance_id: member.instance_id.clone(),
            client_id: Arc::clone(&member.client_id),
            client_host: Arc::clone(&member.client_host),
            metadata: member.metadata(protocol.map(|name| &**name)),
            assignment: Arc::clone(&member.assignment),
        });
        Ok(DescribedGroup {
            error: None,
            group_id: Arc::clone(&group.id),
            state: group.state(),
            protocol_type: or_empty(group.protocol_type()),
            protocol: or_empty(protocol),
            members: members.collect(),
        })
    }

    /// Counts for metrics; takes time in proportion to the groups.
    pub fn stats(&self) -> ShardStats {
        let mut groups = BTreeMap::new();
        let (mut members, mut offsets) = (0, 0);
        for group in self.groups.values() {
            *groups.entry(group.state()).or_default() += 1;
            members += group.member_count();
            offsets += group.offsets.count();
        }
        ShardStats {
            groups,
            members,
            offsets,
            parked: self.parked.len(),
            offset_commits: self.counters.offset_commits,
            offset_expirations: self.counters.offset_expirations,
            offset_deletions: self.counters.offset_deletions,
            completed_rebalances: self.counters.completed_rebalances,
        }
    }
}

fn or_empty(name: Option<&Arc<str>>) -> Arc<str> {
    name.cloned().unwrap_or_else(|| Arc::from(""))
}
