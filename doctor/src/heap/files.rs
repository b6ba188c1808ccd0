//! Names of mapped files. A map has none; the object that holds it often has: Kafka's indexes have a `File` beside it.

use std::collections::{HashMap, HashSet};

use super::classes::{Classes, Kind};
use super::holders::Graph;
use super::natives::Natives;
use super::search::By;
use super::text::{Answer, Texts};

/// Fields of a map's holder that are looked at for the name of the file.
const MAX_CANDIDATES: usize = 24;

/// Parts of texts that must be found next: names of threads, and what may name a mapped file.
pub(super) fn wanted_texts(
    classes: &Classes,
    natives: &Natives,
    texts: &Texts,
    holders: &HashMap<u64, (usize, Box<[u8]>)>,
) -> HashSet<u64> {
    let names = natives.threads.iter().map(|thread| thread.name);
    let candidates = holders.values().flat_map(|(class, fields)| candidates(classes, *class, fields));
    names
        .chain(candidates.map(|(id, _)| id))
        .filter_map(|id| match texts.text(classes, id) {
            Answer::Ask(id) => Some(id),
            _ => None,
        })
        .collect()
}

/// References of a map's holder, with the offset of the field.
fn candidates(classes: &Classes, class: usize, fields: &[u8]) -> Vec<(u64, usize)> {
    let Some((_, layout)) = classes.list.get(class).and_then(|class| classes.layout(class.id)) else {
        return Vec::new();
    };
    let offsets = classes.references(layout).iter().take(MAX_CANDIDATES);
    offsets
        .filter_map(|offset| Some((classes.reference_at(fields, *offset as usize)?, *offset as usize)))
        .collect()
}

/// The name of a mapped file, from a `File`, a `Path` or a field that is called so in the object that holds the map.
pub(super) fn file_name(
    classes: &Classes,
    texts: &Texts,
    graph: &Graph,
    starts: impl Iterator<Item = u64>,
    holders: &HashMap<u64, (usize, Box<[u8]>)>,
) -> Option<String> {
    let mut best: Option<(u8, String)> = None;
    for referrer in starts.flat_map(|id| graph.of(id)) {
        let By::Field(holder, ..) = referrer.by else { continue };
        let Some((class, fields)) = holders.get(&holder) else { continue };
        for (id, offset) in candidates(classes, *class, fields) {
            let named = || {
                let (_, name) = classes.field_at(*class, offset)?;
                classes.symbols.get(&name).filter(|name| matches!(name.as_str(), "file" | "path"))
            };
            let rank = match texts.kind(classes, id) {
                Some(Kind::File | Kind::Path) => 0,
                Some(Kind::String) if named().is_some() => 1,
                _ => continue,
            };
            if best.as_ref().is_none_or(|(other, _)| rank < *other)
                && let Answer::Known(text) = texts.text(classes, id)
            {
                best = Some((rank, text));
            }
        }
    }
    best.map(|(_, name)| name)
}
