//! Sets and maps of object ids, made for a lookup per object of a dump.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// An odd number that whoever writes a dump cannot know, lest its ids all fall into one place.
fn multiplier() -> u64 {
    static MULTIPLIER: OnceLock<u64> = OnceLock::new();
    *MULTIPLIER.get_or_init(|| RandomState::new().hash_one(0) | 1)
}

/// Spreads ids, which are multiples of 8 and close to each other.
#[inline(always)]
fn spread(id: u64, multiplier: u64) -> u64 {
    (id >> 2).wrapping_mul(multiplier)
}

/// Id to number, open addressing. The id 0 is no object and never in it.
#[derive(Debug, Clone)]
pub(crate) struct IdMap {
    slots: Vec<(u64, u32)>,
    multiplier: u64,
    shift: u32,
    count: usize,
}

impl Default for IdMap {
    fn default() -> Self {
        Self { slots: Vec::new(), multiplier: multiplier(), shift: 0, count: 0 }
    }
}

impl IdMap {
    #[inline(always)]
    pub(crate) fn get(&self, id: u64) -> Option<u32> {
        if id == 0 || self.slots.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut at = (spread(id, self.multiplier) >> self.shift) as usize;
        loop {
            let (key, value) = self.slots[at & mask];
            if key == id {
                return Some(value);
            }
            if key == 0 {
                return None;
            }
            at += 1;
        }
    }

    pub(crate) fn insert(&mut self, id: u64, value: u32) {
        if id == 0 {
            return;
        }
        if self.count * 2 >= self.slots.len() {
            let size = (self.slots.len() * 2).max(16);
            let old = std::mem::replace(&mut self.slots, vec![(0, 0); size]);
            self.shift = 64 - size.trailing_zeros();
            self.count = 0;
            for (key, value) in old {
                self.insert(key, value);
            }
        }
        let mask = self.slots.len() - 1;
        let mut at = (spread(id, self.multiplier) >> self.shift) as usize;
        loop {
            let slot = &mut self.slots[at & mask];
            if slot.0 == 0 {
                *slot = (id, value);
                self.count += 1;
                return;
            }
            if slot.0 == id {
                slot.1 = value;
                return;
            }
            at += 1;
        }
    }
}

/// A set of ids behind a bitmap that says no to nearly all others.
#[derive(Debug, Default)]
pub(crate) struct IdSet {
    map: IdMap,
    bits: Vec<u64>,
    sorted: Vec<u64>,
}

impl IdSet {
    const BITS: u32 = 16;

    pub(crate) fn new(ids: impl IntoIterator<Item = u64>) -> Self {
        let mut sorted: Vec<u64> = ids.into_iter().filter(|id| *id != 0).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut set = Self { map: IdMap::default(), bits: vec![0; 1 << (Self::BITS - 6)], sorted };
        for (place, id) in set.sorted.iter().enumerate() {
            set.map.insert(*id, place as u32);
            let bit = spread(*id, set.map.multiplier) >> (64 - Self::BITS);
            set.bits[(bit >> 6) as usize] |= 1 << (bit & 63);
        }
        set
    }

    #[inline(always)]
    pub(crate) fn contains(&self, id: u64) -> bool {
        let bit = spread(id, self.map.multiplier) >> (64 - Self::BITS);
        self.bits.get((bit >> 6) as usize).is_some_and(|word| word >> (bit & 63) & 1 == 1)
            && self.map.get(id).is_some()
    }

    /// The place of an id in the order of ids.
    pub(crate) fn place(&self, id: u64) -> Option<usize> {
        self.map.get(id).map(|place| place as usize)
    }

    /// The ids, in order.
    pub(crate) fn sorted(&self) -> &[u64] {
        &self.sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_and_others_are_not() {
        let mut map = IdMap::default();
        let mut set = Vec::new();
        for index in 1..5_000_u32 {
            let id = u64::from(index) * 24 + 0x7_0000_0000;
            map.insert(id, index);
            set.push(id);
        }
        map.insert(0, 1);
        let set = IdSet::new(set);
        for index in 1..5_000_u32 {
            let id = u64::from(index) * 24 + 0x7_0000_0000;
            assert_eq!(map.get(id), Some(index));
            assert!(set.contains(id) && !set.contains(id + 8));
            assert_eq!(map.get(id + 8), None);
        }
        assert_eq!(map.get(0), None);
        assert!(!set.contains(0) && !IdSet::new([]).contains(7) && !IdSet::default().contains(0));
    }
}
