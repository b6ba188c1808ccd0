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

/// A group in DescribeGroups, as it stands in its shard.
#[derive(Debug, Clone, Copy)]
pub struct GroupView<'a> {
    group_id: &'a str,
    group: Option<&'a Group>,
    api_version: i16,
}

/// A member of a [`GroupView`]; the fields are those of [`DescribedMember`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "said of the fields of the other")]
pub struct MemberView<'a> {
    pub member_id: &'a Arc<str>,
    pub group_instance_id: Option<&'a Arc<str>>,
    pub client_id: &'a Arc<str>,
    pub client_host: &'a Arc<str>,
    pub metadata: &'a [u8],
    pub assignment: &'a [u8],
}

impl<'a> GroupView<'a> {
    /// Set for an unknown group from v6 on; its text is the answer's error message.
    pub fn error(&self) -> Option<GroupError> {
        let is_told = self.group.is_none() && self.api_version >= DESCRIBE_NOT_FOUND_VERSION;
        is_told.then(|| GroupError::GroupIdNotFound { group_id: self.group_id.to_owned() })
    }

    /// Group id.
    pub fn group_id(&self) -> &'a str {
        self.group_id
    }

    /// State; Dead if the group is not known.
    pub fn state(&self) -> GroupState {
        self.group.map_or(GroupState::Dead, Group::state)
    }

    /// Protocol type, or empty.
    pub fn protocol_type(&self) -> &'a str {
        self.group.and_then(Group::protocol_type).map_or("", |name| name)
    }

    /// The chosen protocol in a stable group, else empty.
    pub fn protocol(&self) -> &'a str {
        self.chosen().unwrap_or_default()
    }

    /// Its members.
    pub fn members(&self) -> impl Iterator<Item = MemberView<'a>> + use<'a> {
        let protocol = self.chosen();
        self.group.into_iter().flat_map(Group::members).map(move |member| MemberView {
            member_id: &member.id,
            group_instance_id: member.instance_id.as_ref(),
            client_id: &member.client_id,
            client_host: &member.client_host,
            metadata: member.supported(protocol).map_or(&[], |found| &found.metadata),
            assignment: &member.assignment,
        })
    }

    /// How many they are.
    pub fn member_count(&self) -> usize {
        self.group.map_or(0, Group::member_count)
    }

    fn chosen(&self) -> Option<&'a str> {
        let group = self.group.filter(|group| group.is_in(GroupState::Stable))?;
        group.protocol_name().map(|name| &**name)
    }
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

/// The type of every group here.
const GROUP_TYPE: &str = "classic";

/// Which groups are listed. However long the lists are that it is made of, it is small, and made once for all groups.
#[derive(Clone, Debug)]
pub struct GroupFilter {
    states: Vec<GroupState>,
}

impl GroupFilter {
    /// By the names of states and types; an empty list passes all. Letters' case does not matter.
    #[must_use]
    pub fn new(states: &[String], types: &[String]) -> Self {
        let passes = |filter: &[String], name: &str| {
            filter.is_empty() || filter.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(name))
        };
        let has_type = passes(types, GROUP_TYPE);
        let states = GroupState::ALL.into_iter().filter(|state| has_type && passes(states, state.as_str()));
        GroupFilter { states: states.collect() }
    }
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
        self.visit_groups(&GroupFilter::new(states, types), |group| groups.push(group))?;
        Ok(groups)
    }

    /// As [`Shard::list_groups`], one by one, so that no list of them is held.
    pub fn visit_groups(
        &self,
        filter: &GroupFilter,
        mut visit: impl FnMut(ListedGroup),
    ) -> Result<(), GroupError> {
        self.check_serving()?;
        let groups = self.groups.values().filter(|group| filter.states.contains(&group.state()));
        groups.for_each(|group| {
            visit(ListedGroup {
                group_id: Arc::clone(&group.id),
                protocol_type: or_empty(group.protocol_type()),
                state: group.state(),
                group_type: GROUP_TYPE,
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

    /// One group for DescribeGroups of `api_version`, as it stands here: nothing of it is copied.
    pub fn view_group<'a>(
        &'a self,
        group_id: &'a str,
        api_version: i16,
    ) -> Result<GroupView<'a>, GroupError> {
        self.check_serving()?;
        Ok(GroupView { group_id, group: self.groups.get(group_id).map(|group| &**group), api_version })
    }

    /// As [`Shard::view_group`], to be kept.
    pub fn describe_group(&self, group_id: &str, api_version: i16) -> Result<DescribedGroup, GroupError> {
        let view = self.view_group(group_id, api_version)?;
        let members = view.members().map(|member| DescribedMember {
            member_id: Arc::clone(member.member_id),
            group_instance_id: member.group_instance_id.cloned(),
            client_id: Arc::clone(member.client_id),
            client_host: Arc::clone(member.client_host),
            metadata: Arc::from(member.metadata),
            assignment: Arc::from(member.assignment),
        });
        Ok(DescribedGroup {
            error: view.error(),
            group_id: Arc::from(view.group_id()),
            state: view.state(),
            protocol_type: Arc::from(view.protocol_type()),
            protocol: Arc::from(view.protocol()),
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
