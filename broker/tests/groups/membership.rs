//! Several members: rebalances, static members, connections that vanish.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::Shutdown;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use weir_protocol::messages::*;

use crate::member::{Member, QUICK, delete, describe, groups_share, wait_until};
use crate::support::Running;

#[test]
fn two_members_share_a_group_and_the_second_takes_over_when_the_first_leaves() {
    let server = Running::start(QUICK);
    let mut first = Member::new(&server, "pair");
    assert_eq!(first.settle().assignment, first.id.as_bytes());
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let mut second = Member::new(&server, "pair");
            let synced = second.settle();
            assert_eq!(synced.assignment, second.id.as_bytes());
            second
        });
        wait_until("the first member hears of the rebalance", || {
            first.heartbeat(4) == ErrorCode::REBALANCE_IN_PROGRESS
        });
        assert_eq!(first.settle().assignment, first.id.as_bytes());
        let mut second = second.join().unwrap();
        assert_eq!((first.generation, second.generation), (2, 2));
        assert_eq!(describe(&mut first.client, "pair").members.len(), 2);

        assert_eq!(first.leave(5).error_code, ErrorCode::NONE);
        assert_eq!(first.heartbeat(4), ErrorCode::UNKNOWN_MEMBER_ID);
        wait_until("the second member hears of it", || {
            second.heartbeat(4) == ErrorCode::REBALANCE_IN_PROGRESS
        });
        assert_eq!(second.settle().assignment, second.id.as_bytes());
        assert_eq!(second.generation, 3);
        assert_eq!(describe(&mut second.client, "pair").members.len(), 1);
    });
}

#[test]
fn fifty_members_that_join_at_once_form_one_generation_and_leave_nothing_behind() {
    const MEMBERS: usize = 50;
    let server = Running::start(&QUICK.replace("delay.ms=0", "delay.ms=700"));
    let (sender, receiver) = mpsc::channel();
    let generations = Mutex::new(vec![-1; MEMBERS]);
    std::thread::scope(|scope| {
        for number in 0..MEMBERS {
            let (sender, server, generations) = (sender.clone(), &server, &generations);
            scope.spawn(move || {
                let mut member = Member::new(server, "crowd");
                // Together more than a small reply: the leader's goes through the control share.
                member.metadata = vec![number as u8; 1000];
                assert_eq!(member.settle().assignment, member.id.as_bytes());
                // One that comes late on a slow machine makes another generation, which the others hear of.
                wait_until("all are in one generation", || {
                    if member.heartbeat(4) == ErrorCode::REBALANCE_IN_PROGRESS {
                        assert_eq!(member.settle().assignment, member.id.as_bytes());
                    }
                    let mut generations = generations.lock().unwrap();
                    generations[number] = member.generation;
                    generations.iter().all(|generation| *generation == member.generation)
                });
                sender.send(member).unwrap();
            });
        }
    });
    let mut members: Vec<Member> = (0..MEMBERS).map(|_| receiver.recv().unwrap()).collect();
    let generations: BTreeSet<i32> = members.iter().map(|member| member.generation).collect();
    assert_eq!(generations.len(), 1, "{generations:?}");
    let ids: BTreeSet<&str> = members.iter().map(|member| member.id.as_str()).collect();
    let described = describe(&mut server.client(), "crowd");
    assert_eq!(described.group_state, "Stable");
    assert_eq!(described.members.iter().map(|it| it.member_id.as_str()).collect::<BTreeSet<_>>(), ids);
    let held = groups_share(&server);
    assert!(held >= (MEMBERS * 1000) as u64, "{held}");
    for member in &mut members {
        assert_eq!(member.leave(5).error_code, ErrorCode::NONE);
    }
    assert_eq!(describe(&mut server.client(), "crowd").group_state, "Empty");
    assert_eq!(delete(&mut server.client(), "crowd"), ErrorCode::NONE);
    assert_eq!(groups_share(&server), 0);
}

#[test]
fn a_waiting_member_that_never_learnt_its_id_goes_with_its_connection() {
    let server = Running::start(QUICK);
    let mut first = Member::new(&server, "g");
    first.settle();
    let second = Member::new(&server, "g");
    // Version 0 waits at once and has no id to come back with.
    let stream = second.client.send_only(&second.join_request(0), 0);
    wait_until("the second waits", || describe(&mut first.client, "g").members.len() == 2);
    stream.shutdown(Shutdown::Both).unwrap();
    wait_until("the second is gone", || describe(&mut first.client, "g").members.len() == 1);
    first.settle();
    assert_eq!(describe(&mut first.client, "g").group_state, "Stable");
    wait_until("nothing is held for it", || {
        let report = server.budgets();
        report
            .iter()
            .filter(|it| it.name.ends_with("control") || it.name.ends_with("small"))
            .all(|it| it.used == 0)
    });
}

#[test]
fn a_waiting_member_with_an_id_keeps_its_place_for_one_session_and_can_come_back() {
    let server = Running::start(QUICK);
    let mut first = Member::new(&server, "g");
    first.settle();
    let mut second = Member::new(&server, "g");
    let asked = second.client.call(&second.join_request(9), 9);
    assert_eq!(asked.error_code, ErrorCode::MEMBER_ID_REQUIRED);
    second.id = asked.member_id;
    let stream = second.client.send_only(&second.join_request(9), 9);
    wait_until("the second waits", || describe(&mut first.client, "g").members.len() == 2);
    stream.shutdown(Shutdown::Both).unwrap();
    // It comes back on another connection, and both end up in one generation.
    second.client = server.client();
    std::thread::scope(|scope| {
        let second = scope.spawn(move || {
            second.settle();
            second
        });
        first.settle();
        let mut second = second.join().unwrap();
        if second.generation != first.generation {
            first.settle();
        }
        assert_eq!(describe(&mut first.client, "g").members.len(), 2);
        assert_eq!(second.heartbeat(4), ErrorCode::NONE);
        // It falls silent: after its session, which is a short one from now on, it is gone.
        second.session_timeout_ms = 400;
        let mut falls_silent = second.client.send_only(&second.join_request(9), 9);
        wait_until("the first hears of it", || first.heartbeat(4) == ErrorCode::REBALANCE_IN_PROGRESS);
        first.settle();
        falls_silent.read_exact(&mut [0]).unwrap();
        wait_until("its session has ended", || describe(&mut first.client, "g").members.len() == 1);
    });
}

#[test]
fn a_static_member_comes_back_with_its_assignment_and_fences_its_former_self() {
    let server = Running::start(QUICK);
    let mut old = Member::new(&server, "g");
    old.instance = Some("instance-1".to_string());
    assert_eq!(old.settle().assignment, old.id.as_bytes());
    let mut new = Member::new(&server, "g");
    new.instance.clone_from(&old.instance);
    let joined = new.join(9);
    assert_eq!((joined.error_code, joined.generation_id), (ErrorCode::NONE, old.generation));
    assert!(joined.skip_assignment && joined.leader == new.id && new.id != old.id);
    assert!(new.id.starts_with("instance-1-"), "{}", new.id);
    assert_eq!(new.sync(5, &[]).assignment, old.id.as_bytes());
    assert_eq!(old.heartbeat(4), ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(new.heartbeat(4), ErrorCode::NONE);
    // An administrator removes it by its name alone.
    let request = LeaveGroupRequest {
        group_id: "g".to_string(),
        members: ["instance-1", "instance-2"]
            .map(|instance| MemberIdentity {
                group_instance_id: Some(instance.to_string()),
                ..MemberIdentity::default()
            })
            .to_vec(),
        ..LeaveGroupRequest::default()
    };
    let left = new.client.call(&request, 5);
    let codes: Vec<_> = left.members.iter().map(|it| it.error_code).collect();
    assert_eq!(codes, [ErrorCode::NONE, ErrorCode::UNKNOWN_MEMBER_ID]);
    assert_eq!(describe(&mut new.client, "g").group_state, "Empty");
}

#[test]
fn what_members_get_wrong_is_answered_with_kafkas_errors() {
    let server = Running::start(QUICK);
    let mut member = Member::new(&server, "g");
    member.session_timeout_ms = 50;
    assert_eq!(member.join(9).error_code, ErrorCode::INVALID_SESSION_TIMEOUT);
    member.session_timeout_ms = 30_000;
    member.id = "made up".to_string();
    assert_eq!(member.join(9).error_code, ErrorCode::UNKNOWN_MEMBER_ID);
    member.id = String::new();
    member.settle();
    let request = JoinGroupRequest { protocol_type: "connect".to_string(), ..member.join_request(9) };
    assert_eq!(member.client.call(&request, 9).error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    let request = SyncGroupRequest {
        group_id: "g".to_string(),
        generation_id: member.generation,
        member_id: member.id.clone(),
        ..SyncGroupRequest::default()
    };
    assert_eq!(member.client.call(&request, 5).error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    assert_eq!(member.client.call(&request, 4).error_code, ErrorCode::NONE);
    member.generation += 1;
    assert_eq!(member.heartbeat(4), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(member.sync(5, &[]).error_code, ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(delete(&mut member.client, "g"), ErrorCode::NON_EMPTY_GROUP);
    let missing = HeartbeatRequest { group_id: "missing".to_string(), ..HeartbeatRequest::default() };
    assert_eq!(member.client.call(&missing, 4).error_code, ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_stop_tells_waiting_members_to_look_for_another_coordinator() {
    let mut server = Running::start(QUICK);
    let mut first = Member::new(&server, "g");
    first.settle();
    let mut second = Member::new(&server, "g");
    let watched = &mut first;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            let asked = second.client.call(&second.join_request(9), 9);
            second.id = asked.member_id;
            second.client.try_call(&second.join_request(9), 9)
        });
        wait_until("the second waits", || describe(&mut watched.client, "g").members.len() == 2);
        std::thread::sleep(Duration::from_millis(20));
        server.restart();
        // Told so, or cut off: never left waiting.
        if let Some(response) = waiting.join().unwrap() {
            assert_eq!(response.error_code, ErrorCode::NOT_COORDINATOR);
        }
    });
}
