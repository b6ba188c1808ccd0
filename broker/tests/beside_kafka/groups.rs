//! Groups: finding their coordinator, membership, what goes wrong in it, static members, and what administrators see.

use weir_protocol::messages::*;

use crate::group_offsets;
use crate::pair::{Both, Pair, Release};

/// A member as each of the two knows it.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) connection: usize,
    pub(crate) group: String,
    pub(crate) instance: Option<String>,
    pub(crate) ids: Both<String>,
    pub(crate) generation: i32,
    pub(crate) protocols: Vec<(&'static str, Vec<u8>)>,
    pub(crate) protocol_type: &'static str,
}

/// Someone who has not joined yet, on a connection of its own.
pub(crate) fn member(connection: usize, group: &str) -> Member {
    Member {
        connection,
        group: group.to_string(),
        instance: None,
        ids: Both::same(String::new()),
        generation: -1,
        protocols: vec![("range", b"topics".to_vec()), ("roundrobin", vec![1, 2])],
        protocol_type: "consumer",
    }
}

impl Member {
    fn named(mut self, instance: &str) -> Member {
        self.instance = Some(instance.to_string());
        self
    }

    fn join_requests(&self, version: i16) -> Both<JoinGroupRequest> {
        self.ids.map(|id| JoinGroupRequest {
            group_id: self.group.clone(),
            session_timeout_ms: 60_000,
            rebalance_timeout_ms: 60_000,
            member_id: id.clone(),
            group_instance_id: self.instance.clone().filter(|_| version >= 5),
            protocol_type: self.protocol_type.to_string(),
            protocols: self
                .protocols
                .iter()
                .map(|(name, metadata)| JoinGroupRequestProtocol {
                    name: (*name).to_string(),
                    metadata: metadata.clone(),
                    ..Default::default()
                })
                .collect(),
            reason: (version >= 8).then(|| "a test".to_string()),
            ..Default::default()
        })
    }

    /// Joins once; takes up the member id and the generation.
    fn join_once(&mut self, pair: &mut Pair, version: i16) -> Both<JoinGroupResponse> {
        let requests = self.join_requests(version);
        let answers = pair.on(self.connection).ask_each(version, &requests).answered();
        self.take(&answers);
        answers
    }

    fn take(&mut self, answers: &Both<JoinGroupResponse>) {
        if !answers.kafka.member_id.is_empty() && !answers.weir.member_id.is_empty() {
            self.ids = answers.map(|answer| answer.member_id.clone());
        }
        if answers.kafka.error_code.is_ok() {
            self.generation = answers.kafka.generation_id;
        }
    }

    /// Joins as a client does, with the id that it is given at first (KIP-394).
    pub(crate) fn join(&mut self, pair: &mut Pair, version: i16) -> Both<JoinGroupResponse> {
        let answers = self.join_once(pair, version);
        match answers.kafka.error_code {
            ErrorCode::MEMBER_ID_REQUIRED => self.join_once(pair, version),
            _ => answers,
        }
    }

    /// Sends a join, to be received when another has joined, too.
    pub(crate) fn send_join(&mut self, pair: &mut Pair, version: i16) {
        if version >= 4 && self.ids.kafka.is_empty() && self.instance.is_none() {
            self.join_once(pair, version);
        }
        let requests = self.join_requests(version);
        pair.on(self.connection).send(version, &requests);
    }

    fn receive_join(&mut self, pair: &mut Pair, version: i16) -> Both<JoinGroupResponse> {
        let answers = pair.on(self.connection).receive::<JoinGroupRequest>(version).answered();
        self.take(&answers);
        answers
    }

    fn sync_requests(&self, version: i16, assigned: &[&Member]) -> Both<SyncGroupRequest> {
        let request = |id: &String, pick: fn(&Both<String>) -> &String| SyncGroupRequest {
            group_id: self.group.clone(),
            generation_id: self.generation,
            member_id: id.clone(),
            group_instance_id: self.instance.clone().filter(|_| version >= 3),
            protocol_type: (version >= 5).then(|| self.protocol_type.to_string()),
            protocol_name: (version >= 5).then(|| "range".to_string()),
            assignments: assigned
                .iter()
                .map(|member| SyncGroupRequestAssignment {
                    member_id: pick(&member.ids).clone(),
                    assignment: vec![7; member.connection + 1],
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        };
        Both {
            kafka: request(&self.ids.kafka, |ids| &ids.kafka),
            weir: request(&self.ids.weir, |ids| &ids.weir),
        }
    }

    pub(crate) fn sync(&self, pair: &mut Pair, version: i16, assigned: &[&Member]) {
        let requests = self.sync_requests(version, assigned);
        pair.on(self.connection).ask_each(version, &requests);
    }

    pub(crate) fn beat(&self, pair: &mut Pair, version: i16) {
        let requests = self.ids.map(|id| HeartbeatRequest {
            group_id: self.group.clone(),
            generation_id: self.generation,
            member_id: id.clone(),
            group_instance_id: self.instance.clone().filter(|_| version >= 3),
            ..Default::default()
        });
        pair.on(self.connection).ask_each(version, &requests);
    }

    fn leave(&self, pair: &mut Pair, version: i16) {
        let requests =
            self.ids.map(|id| leave_request(version, &self.group, &[(id, self.instance.as_deref())]));
        pair.on(self.connection).ask_each(version, &requests);
    }
}

fn leave_request(version: i16, group: &str, members: &[(&str, Option<&str>)]) -> LeaveGroupRequest {
    let mut request = LeaveGroupRequest { group_id: group.to_string(), ..Default::default() };
    if version < 3 {
        request.member_id = members.first().map_or(String::new(), |(id, _)| (*id).to_string());
        return request;
    }
    request.members = members
        .iter()
        .map(|(id, instance)| MemberIdentity {
            member_id: (*id).to_string(),
            group_instance_id: instance.map(str::to_string),
            reason: (version >= 5).then(|| "done".to_string()),
            ..Default::default()
        })
        .collect();
    request
}

pub(crate) fn compare(pair: &mut Pair) {
    if pair.release == Release::Kafka3_9 {
        return;
    }
    let find = FindCoordinatorRequest { key: "group".to_string(), ..Default::default() };
    pair.settle(0, &Both::same(find), |answer| answer.error_code.is_ok());
    // A coordinator is found before it has read its partition.
    for group in ["a", "b", "c", "d", "e"] {
        let list = DescribeGroupsRequest { groups: vec![group.to_string()], ..Default::default() };
        pair.settle(0, &Both::same(list), |answer| answer.groups[0].error_code.is_ok());
    }
    for version in pair.served(ApiKey::FindCoordinator) {
        find_coordinator(pair, version);
    }
    for version in pair.served(ApiKey::JoinGroup) {
        refused_joins(pair, version);
        clean_up(pair, version);
        life(pair, version);
        if version >= 5 {
            static_members(pair, version);
        }
    }
    for version in pair.served(ApiKey::LeaveGroup) {
        leave(pair, version);
    }
    group_offsets::compare(pair);
    for version in pair.served(ApiKey::ListGroups) {
        list(pair, version);
    }
    for version in pair.served(ApiKey::DeleteGroups) {
        delete(pair, version);
    }
}

fn find_coordinator(pair: &mut Pair, version: i16) {
    let types: &[i8] = if version >= 1 { &[0, 1, 2, 3, -1] } else { &[0] };
    for key_type in types {
        for keys in [&["group"][..], &[""], &["a", "b", "a"], &[]] {
            if version < 4 && keys.len() != 1 {
                continue;
            }
            match key_type {
                // Only this type is a difference that is meant.
                1 => pair.scene(format!("find {keys:?} for a transaction")),
                _ => pair.scene(format!("{keys:?} of type {key_type}")),
            }
            let mut request = FindCoordinatorRequest { key_type: *key_type, ..Default::default() };
            match version {
                4.. => request.coordinator_keys = keys.iter().map(|key| (*key).to_string()).collect(),
                _ => request.key = keys[0].to_string(),
            }
            pair.ask(version, &request);
        }
    }
}

fn refused_joins(pair: &mut Pair, version: i16) {
    let ask = |pair: &mut Pair, scene: &str, change: &dyn Fn(&mut JoinGroupRequest)| {
        pair.scene(format!("join {scene}"));
        let mut request = member(0, &format!("refused-v{version}")).join_requests(version).kafka;
        change(&mut request);
        pair.on(0).ask(version, &request);
    };
    ask(pair, "a nameless group", &|join| join.group_id.clear());
    ask(pair, "with a short session", &|join| join.session_timeout_ms = 99);
    ask(pair, "with a long session", &|join| join.session_timeout_ms = 2_000_000);
    ask(pair, "with a negative session", &|join| join.session_timeout_ms = -1);
    ask(pair, "as somebody unknown", &|join| join.member_id = "nobody".to_string());
    ask(pair, "without protocols", &|join| join.protocols.clear());
    ask(pair, "without a protocol type", &|join| join.protocol_type.clear());
    ask(pair, "without protocols and type", &|join| {
        join.protocols.clear();
        join.protocol_type.clear();
    });
    if version >= 5 {
        ask(pair, "as a nameless instance", &|join| join.group_instance_id = Some(String::new()));
        ask(pair, "as an invalid instance", &|join| {
            join.group_instance_id = Some("a b".to_string());
            join.group_id += "-invalid";
        });
        ask(pair, "as an unknown instance", &|join| {
            join.group_instance_id = Some("i".to_string());
            join.group_id += "-unknown";
            join.member_id = "nobody".to_string();
        });
    }
}

/// Deletes groups whose members were all refused.
fn clean_up(pair: &mut Pair, version: i16) {
    pair.scene("what refused joins leave");
    for group in ["", "-invalid", "-unknown"] {
        let groups_names = vec![format!("refused-v{version}{group}")];
        pair.on(0).ask(2, &DeleteGroupsRequest { groups_names, ..Default::default() });
    }
}

/// A group from its first member to its end, each step in the version of its API that is nearest.
fn life(pair: &mut Pair, version: i16) {
    let at = |highest: i16| version.min(highest);
    let group = format!("life-v{version}");
    let describe = |pair: &mut Pair, scene: &str| {
        for version in pair.served(ApiKey::DescribeGroups) {
            pair.scene(format!("describe {scene}"));
            let request = DescribeGroupsRequest {
                groups: vec![group.clone(), "no-such-group".to_string()],
                include_authorized_operations: version >= 3,
                ..Default::default()
            };
            pair.on(0).ask(version, &request);
        }
    };
    let mut first = member(1, &group);
    pair.scene("the first joins");
    first.join(pair, version);
    describe(pair, "a group that completes its rebalance");
    pair.scene("a beat before the assignment");
    first.beat(pair, at(4));
    pair.scene("sync with a wrong generation");
    for generation in [-1, 0, 2] {
        let stray = Member { generation, ..first.clone() };
        stray.sync(pair, at(5), &[]);
    }
    pair.scene("sync as nobody");
    Member { ids: Both::same("nobody".to_string()), ..first.clone() }.sync(pair, at(5), &[]);
    Member { ids: Both::same(String::new()), ..first.clone() }.sync(pair, at(5), &[]);
    pair.scene("sync in no group");
    Member { group: "no-such-group".to_string(), ..first.clone() }.sync(pair, at(5), &[]);
    Member { group: String::new(), ..first.clone() }.sync(pair, at(5), &[]);
    if version >= 5 {
        for (protocol_type, protocol_name) in [
            (Some("connect"), Some("range")),
            (Some("consumer"), Some("roundrobin")),
            (None, None),
            (Some("consumer"), None),
        ] {
            pair.scene(format!("sync with {protocol_type:?} {protocol_name:?}"));
            let mut requests = first.sync_requests(5, &[]);
            for request in [&mut requests.kafka, &mut requests.weir] {
                request.protocol_type = protocol_type.map(str::to_string);
                request.protocol_name = protocol_name.map(str::to_string);
            }
            if protocol_type != Some("consumer") || protocol_name != Some("range") {
                pair.on(1).ask_each(5, &requests);
            }
        }
    }
    pair.scene("the leader syncs");
    first.sync(pair, at(5), &[&first]);
    pair.scene("sync again");
    first.sync(pair, at(5), &[&first]);
    first.sync(pair, at(5), &[]);
    describe(pair, "a stable group");
    for beat_version in pair.served(ApiKey::Heartbeat) {
        pair.scene("beats");
        first.beat(pair, beat_version);
        for generation in [-1, 0, first.generation + 1, i32::MAX] {
            pair.scene("a beat of a wrong generation");
            Member { generation, ..first.clone() }.beat(pair, beat_version);
        }
        pair.scene("a beat of nobody");
        Member { ids: Both::same("nobody".to_string()), ..first.clone() }.beat(pair, beat_version);
        Member { ids: Both::same(String::new()), ..first.clone() }.beat(pair, beat_version);
        pair.scene("a beat in no group");
        Member { group: "no-such-group".to_string(), ..first.clone() }.beat(pair, beat_version);
        Member { group: String::new(), ..first.clone() }.beat(pair, beat_version);
        if beat_version >= 3 {
            pair.scene("a beat of an unknown instance");
            first.clone().named("nobody").beat(pair, beat_version);
        }
    }
    pair.scene("another's protocols do not fit");
    let mut stranger = member(2, &group);
    stranger.protocols = vec![("sticky", vec![])];
    stranger.join(pair, version);
    let mut stranger = member(2, &group);
    stranger.protocol_type = "connect";
    stranger.join(pair, version);

    pair.scene("the first joins again, unchanged");
    first.join(pair, version);
    pair.scene("the first syncs again");
    first.sync(pair, at(5), &[&first]);

    let mut second = member(2, &group);
    pair.scene("a second joins");
    second.send_join(pair, version);
    until_rebalancing(pair, &first);
    pair.scene("a beat during the rebalance");
    first.beat(pair, at(4));
    describe(pair, "a group that prepares a rebalance");
    pair.scene("sync during the rebalance");
    first.sync(pair, at(5), &[&first]);
    pair.scene("commit during the rebalance");
    group_offsets::commit_as(pair, 8, &first);
    pair.scene("the first joins with the second");
    let answers = first.join(pair, version);
    second.receive_join(pair, version);
    pair.scene("both sync");
    let (leader, follower) = match answers.kafka.leader == first.ids.kafka {
        true => (&first, &second),
        false => (&second, &first),
    };
    let requests = follower.sync_requests(at(5), &[]);
    pair.on(follower.connection).send(at(5), &requests);
    leader.sync(pair, at(5), &[&first, &second]);
    pair.on(follower.connection).receive::<SyncGroupRequest>(at(5));
    describe(pair, "a stable group of two");
    pair.scene("beats of two");
    first.beat(pair, at(4));
    second.beat(pair, at(4));
    pair.scene("delete a group that is not empty");
    let names = vec![group.clone()];
    pair.on(0).ask(2, &DeleteGroupsRequest { groups_names: names.clone(), ..Default::default() });
    pair.scene("the second leaves");
    second.leave(pair, at(5));
    pair.scene("after the second left");
    second.beat(pair, at(4));
    first.beat(pair, at(4));
    first.join(pair, version);
    first.sync(pair, at(5), &[&first]);
    pair.scene("the first leaves");
    first.leave(pair, at(5));
    first.leave(pair, at(5));
    describe(pair, "an empty group");
    pair.scene("after the first left");
    first.beat(pair, at(4));
    first.sync(pair, at(5), &[&first]);
    first.join_once(pair, version);
    pair.scene("delete the group");
    pair.on(0).ask(2, &DeleteGroupsRequest { groups_names: names, ..Default::default() });
    describe(pair, "a deleted group");
}

/// Waits until both have taken a join that was sent before.
pub(crate) fn until_rebalancing(pair: &mut Pair, member: &Member) {
    let request = DescribeGroupsRequest { groups: vec![member.group.clone()], ..Default::default() };
    pair.on(0).settle(0, &Both::same(request), |answer| answer.groups[0].group_state == "PreparingRebalance");
}

fn static_members(pair: &mut Pair, version: i16) {
    let at = |highest: i16| version.min(highest);
    let group = format!("static-v{version}");
    let mut first = member(1, &group).named("i1");
    pair.scene("static: the first joins");
    first.join(pair, version);
    first.sync(pair, at(5), &[&first]);
    pair.scene("static: a beat");
    first.beat(pair, at(4));
    pair.scene("static: another id for the instance");
    let fenced = Member { ids: Both::same("nobody".to_string()), ..first.clone() };
    fenced.beat(pair, at(4));
    fenced.sync(pair, at(5), &[]);
    fenced.clone().join_once(pair, version);
    group_offsets::commit_as(pair, 8, &fenced);
    pair.scene("static: an unknown instance");
    let unknown = first.clone().named("i9");
    unknown.beat(pair, at(4));
    unknown.sync(pair, at(5), &[]);
    group_offsets::commit_as(pair, 8, &unknown);

    pair.scene("static: the first comes back without its id");
    let old = first.clone();
    first.ids = Both::same(String::new());
    first.join(pair, version);
    first.sync(pair, at(5), &[&first]);
    pair.scene("static: the old id is fenced");
    old.beat(pair, at(4));
    old.sync(pair, at(5), &[]);
    old.clone().join_once(pair, version);
    group_offsets::commit_as(pair, 8, &old);
    pair.scene("static: the new id goes on");
    first.beat(pair, at(4));
    group_offsets::commit_as(pair, 8, &first);
    for describe_version in pair.served(ApiKey::DescribeGroups) {
        pair.scene("static: describe");
        let request = DescribeGroupsRequest { groups: vec![group.clone()], ..Default::default() };
        pair.on(0).ask(describe_version, &request);
    }
    pair.scene("static: the first comes back with other protocols");
    first.ids = Both::same(String::new());
    first.protocols[0].1 = b"others".to_vec();
    first.join(pair, version);
    first.sync(pair, at(5), &[&first]);
    first.beat(pair, at(4));

    pair.scene("static: a second joins");
    let mut second = member(2, &group).named("i2");
    second.send_join(pair, version);
    until_rebalancing(pair, &first);
    first.join(pair, version);
    second.receive_join(pair, version);
    let requests = second.sync_requests(at(5), &[]);
    pair.on(2).send(at(5), &requests);
    first.sync(pair, at(5), &[&first, &second]);
    pair.on(2).receive::<SyncGroupRequest>(at(5));
    pair.scene("static: the second comes back without its id");
    second.ids = Both::same(String::new());
    second.join(pair, version);
    second.sync(pair, at(5), &[]);
    second.beat(pair, at(4));
    first.beat(pair, at(4));
    pair.scene("static: leave by instance");
    let ask = |pair: &mut Pair, members: &[(&Both<String>, Option<&str>)]| {
        let request = |pick: fn(&Both<String>) -> &String| {
            let members: Vec<(&str, Option<&str>)> =
                members.iter().map(|(ids, instance)| (pick(ids).as_str(), *instance)).collect();
            leave_request(5, &group, &members)
        };
        let requests = Both { kafka: request(|ids| &ids.kafka), weir: request(|ids| &ids.weir) };
        pair.on(0).ask_each(5, &requests);
    };
    let (none, nobody) = (Both::same(String::new()), Both::same("nobody".to_string()));
    ask(pair, &[(&none, Some("i9"))]);
    ask(pair, &[(&nobody, Some("i2"))]);
    ask(pair, &[(&first.ids, Some("i2"))]);
    ask(pair, &[(&none, Some("i2")), (&none, Some("i2")), (&none, Some("i9")), (&nobody, None)]);
    ask(pair, &[(&first.ids, Some("i1"))]);
}

fn leave(pair: &mut Pair, version: i16) {
    let group = format!("leave-v{version}");
    let mut only = member(1, &group);
    pair.scene("leave: join");
    only.join(pair, 4);
    only.sync(pair, 3, &[&only]);
    pair.scene("leave");
    let ask = |pair: &mut Pair, group: &str, members: &[(&str, Option<&str>)]| {
        pair.on(0).ask(version, &leave_request(version, group, members));
    };
    ask(pair, &group, &[("nobody", None)]);
    ask(pair, &group, &[("", None)]);
    ask(pair, "no-such-group", &[("nobody", None)]);
    ask(pair, "", &[("nobody", None)]);
    if version >= 3 {
        ask(pair, &group, &[]);
        ask(pair, "no-such-group", &[]);
        ask(pair, &group, &[("nobody", None), ("somebody", Some("i"))]);
        let requests =
            only.ids.map(|id| leave_request(version, &group, &[("nobody", None), (id, None), (id, None)]));
        pair.on(0).ask_each(version, &requests);
        pair.scene("leave: afterwards");
    } else {
        only.leave(pair, version);
    }
    only.beat(pair, 3);
}

fn list(pair: &mut Pair, version: i16) {
    let mut stable = member(1, &format!("listed-v{version}"));
    pair.scene("list: join");
    stable.join(pair, 4);
    stable.sync(pair, 3, &[&stable]);
    let mut rebalancing = member(2, &format!("listed-too-v{version}"));
    rebalancing.protocol_type = "connect";
    rebalancing.join(pair, 4);
    group_offsets::commit_alone(pair, 8, &format!("listed-offsets-v{version}"));
    let states: &[&[&str]] = match version {
        ..4 => &[&[]],
        _ => &[
            &[],
            &["Stable"],
            &["Empty"],
            &["CompletingRebalance"],
            &["Stable", "Empty"],
            &["stable"],
            &["Nonsense"],
            &[""],
            &["Dead"],
        ],
    };
    let types: &[&[&str]] = match version {
        ..5 => &[&[]],
        _ => &[
            &[],
            &["classic"],
            &["Classic"],
            &["consumer"],
            &["share"],
            &["streams"],
            &["nonsense"],
            &["unknown"],
            &[""],
        ],
    };
    for states in states {
        for types in types {
            pair.scene(format!("list in states {states:?} of types {types:?}"));
            let request = ListGroupsRequest {
                states_filter: states.iter().map(|state| (*state).to_string()).collect(),
                types_filter: types.iter().map(|kind| (*kind).to_string()).collect(),
                ..Default::default()
            };
            pair.on(0).ask(version, &request);
        }
    }
    pair.scene("list: leave");
    stable.leave(pair, 3);
    rebalancing.leave(pair, 3);
}

fn delete(pair: &mut Pair, version: i16) {
    let group = format!("deleted-v{version}");
    let ask = |pair: &mut Pair, scene: &str, names: &[&str]| {
        pair.scene(format!("delete groups: {scene}"));
        let groups_names = names.iter().map(|name| (*name).to_string()).collect();
        pair.on(0).ask(version, &DeleteGroupsRequest { groups_names, ..Default::default() });
    };
    group_offsets::commit_alone(pair, 8, &group);
    let mut alive = member(1, &format!("alive-v{version}"));
    pair.scene("delete groups: join");
    alive.join(pair, 4);
    ask(pair, "none", &[]);
    ask(pair, "unknown", &["no-such-group"]);
    ask(pair, "nameless", &[""]);
    ask(pair, "alive", &[&alive.group]);
    ask(pair, "some", &[&group, "no-such-group", &alive.group, ""]);
    ask(pair, "gone", &[&group]);
    group_offsets::commit_alone(pair, 8, &group);
    ask(pair, "twice", &[&group, &group]);
    alive.leave(pair, 3);
    ask(pair, "left", &[&alive.group]);
}
