//! Memory segments of `java.lang.foreign`: what arenas will free, and the segments and buffers that look into it.
//!
//! An arena's session has a list of what to do when it is closed. An entry that frees memory says where and how much; segments
//! only say what part of it they show. The global arena keeps no list, since nothing of it is ever freed. In the pool are
//! automatic arenas alone.

use std::collections::HashMap;

use super::classes::Kind;
use super::collect::Object;
use super::natives::{Buffer, MAX_BYTES, MAX_LINKS, Reader, Role, size, unmapping};

/// State of a session that was closed.
const CLOSED: i64 = -1;
const FOREIGN: &str = "jdk/internal/foreign/*";

struct Segment<'a> {
    object: &'a Object,
    address: u64,
    length: u64,
    session: u64,
    taken: bool,
}

/// What an entry of a session's list gives back.
struct Freed {
    size: u64,
    capacity: u64,
    address: u64,
    role: Role,
}

/// Adds the segments to `buffers`, views to `views` (view, viewed). False if there is more of them than any JVM has.
pub(super) fn find(reader: &Reader<'_>, buffers: &mut Vec<Buffer>, views: &mut Vec<(u64, u64)>) -> bool {
    let segment = |object| Segment {
        object,
        address: reader.reference(object, FOREIGN, "min"),
        length: reader.bytes(object, FOREIGN, "length"),
        session: reader.reference(object, FOREIGN, "scope"),
        taken: false,
    };
    let mut segments: Vec<Segment<'_>> = reader.objects.of(Kind::Segment).map(segment).collect();
    segments.sort_unstable_by_key(|each| (each.address, std::cmp::Reverse(each.length), each.object.id));
    let mut buffer = |object: &Object, role, address, capacity, session| {
        let (id, at, class) = (object.id, object.at, object.class);
        buffers.push(Buffer {
            id,
            at,
            role,
            capacity,
            limit: capacity,
            position: 0,
            address,
            session,
            class,
        });
    };

    let sessions = reader.objects.of(Kind::Session);
    let sessions: HashMap<u64, u64> =
        sessions.map(|session| (reader.reference(session, FOREIGN, "resourceList"), session.id)).collect();
    let mut links = MAX_LINKS;
    for list in reader.objects.of(Kind::ResourceList) {
        let session = sessions.get(&list.id).copied().unwrap_or(0);
        let mut at = reader.reference(list, FOREIGN, "fst");
        while let Some(cleanup) = reader.object(at, Kind::ResourceCleanup).filter(|_| links > 0) {
            links -= 1;
            at = reader.reference(cleanup, FOREIGN, "next");
            let Some(Freed { size, capacity, address, role }) = freed(reader, cleanup) else { continue };
            // The segment that shows most of it stands for it, the others are views.
            let from = segments.partition_point(|each| each.address < address);
            let to = segments.partition_point(|each| each.address < address.saturating_add(size.max(1)));
            let mut owner = None;
            // Allocations do not overlap, so each segment is met once.
            for segment in segments.get_mut(from..to).into_iter().flatten().take(links) {
                links -= 1;
                if segment.taken || segment.session != session {
                    continue;
                }
                segment.taken = true;
                let Some(of) = owner else {
                    owner = Some(segment.object.id);
                    buffer(segment.object, role, address, capacity, session);
                    continue;
                };
                views.push((segment.object.id, of));
                buffer(segment.object, Role::View { of }, segment.address, segment.length, session);
            }
            if owner.is_none() {
                buffer(cleanup, role, address, capacity, session);
            }
        }
    }

    // What no arena frees. The longest are views of all memory, not allocations.
    let mut last: Option<(u64, u64)> = None;
    for segment in segments.iter().filter(|each| !each.taken && (1..MAX_BYTES).contains(&each.length)) {
        let Segment { object, address, length, session, .. } = *segment;
        let state =
            reader.object(session, Kind::Session).and_then(|each| reader.value(each, FOREIGN, "state"));
        if state == Some(CLOSED) {
            buffer(object, Role::Freed, address, length, session);
        } else if let Some((of, _)) = last.filter(|(_, end)| address.saturating_add(length) <= *end) {
            views.push((object.id, of));
            buffer(object, Role::View { of }, address, length, session);
        } else {
            last = Some((object.id, address.saturating_add(length)));
            buffer(object, Role::Foreign, address, length, 0);
        }
    }
    links > 0
}

fn freed(reader: &Reader<'_>, cleanup: &Object) -> Option<Freed> {
    // JDK 24 and later; before.
    let either =
        |names: [&'static str; 2]| names.into_iter().find_map(|name| reader.value(cleanup, FOREIGN, name));
    if let Some(address) = either(["val$allocationBase", "val$buf"]) {
        let bytes = size(either(["val$allocationSize", "val$alignedSize"])?);
        let capacity = either(["val$cleanupByteSize", "val$byteSize"]).map_or(bytes, size);
        let reserved = reader.value(cleanup, FOREIGN, "val$shouldReserve") != Some(0);
        let role = Role::Segment { size: bytes, reserved };
        return Some(Freed { size: bytes, capacity, address: address.cast_unsigned(), role });
    }
    let unmapper = reader.reference(cleanup, FOREIGN, "val$unmapper");
    let (size, capacity, address) = unmapping(reader, reader.object(unmapper, Kind::Unmapper)?);
    Some(Freed { size, capacity, address, role: Role::Map { size } })
}
