//! Where the last few appended batches lie, so that a reader at the end of a log needs no index and no read.

/// How many batches are remembered.
const BATCHES: usize = 16;

/// A batch of the active segment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RecentBatch {
    pub(crate) base_offset: i64,
    pub(crate) last_offset: i64,
    pub(crate) position: u32,
    pub(crate) size_bytes: u32,
}

/// The last appended batches. Takes no memory until the first one.
#[derive(Debug, Default)]
pub(crate) struct RecentBatches {
    batches: Option<Box<[RecentBatch; BATCHES]>>,
    next: u8,
    count: u8,
}

impl RecentBatches {
    pub(crate) fn push(&mut self, batch: RecentBatch) {
        let batches = self.batches.get_or_insert_with(Box::default);
        if let Some(place) = batches.get_mut(usize::from(self.next)) {
            *place = batch;
        }
        self.next = (self.next + 1) % BATCHES as u8;
        self.count = (self.count + 1).min(BATCHES as u8);
    }

    /// The batch that holds `offset`, newest first.
    pub(crate) fn find(&self, offset: i64) -> Option<RecentBatch> {
        let batches = self.batches.as_ref()?;
        (1..=usize::from(self.count))
            .filter_map(|back| batches.get((usize::from(self.next) + BATCHES - back) % BATCHES))
            .take_while(|batch| batch.last_offset >= offset)
            .find(|batch| batch.base_offset <= offset)
            .copied()
    }

    /// Forgets all: the positions no longer mean the active segment.
    pub(crate) fn clear(&mut self) {
        (self.next, self.count) = (0, 0);
    }

    /// Gives the memory back.
    pub(crate) fn shrink(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.batches.as_ref().map_or(0, |batches| std::mem::size_of_val(&**batches))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_batches_are_found_and_older_ones_are_not() {
        let mut recent = RecentBatches::default();
        assert!(recent.find(0).is_none());
        for n in 0..100i64 {
            recent.push(RecentBatch {
                base_offset: n * 10,
                last_offset: n * 10 + 9,
                position: n as u32,
                size_bytes: 1,
            });
            for offset in 0..(n + 1) * 10 {
                let expected = (offset / 10 > n - BATCHES as i64).then_some((offset / 10) as u32);
                assert_eq!(recent.find(offset).map(|batch| batch.position), expected);
            }
            assert!(recent.find((n + 1) * 10).is_none());
        }
        recent.clear();
        assert!(recent.find(995).is_none());
    }
}
