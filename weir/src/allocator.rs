//! How this process holds memory, and what becomes of memory that a command has freed.

use tikv_jemalloc_ctl::{Access, AsName, arenas};

/// From now on memory is held in pages of the usual size. Where the machine gives out huge ones to all
/// (`transparent_hugepage/enabled` is `always`), each stack and each beginning of a heap would take 2 MiB, which no plan
/// counts.
pub(crate) fn hold_no_huge_pages() {
    // A kernel without huge pages cannot be told, and need not.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// From now on the kernel has freed memory back at once. For a command that builds things up and lets go of them: what the
/// allocator keeps for a second, as a server wants it, can be more than all that is in use.
pub(crate) fn give_back_at_once() {
    // Where it cannot be set, memory goes back later: no reason to fail.
    let _ = "arenas.dirty_decay_ms\0".name().write(0_isize);
    for arena in 0..arenas::narenas::read().unwrap_or(0) {
        // Arenas that nobody uses yet cannot be told; they begin with what was set above.
        let _ = format!("arena.{arena}.dirty_decay_ms\0").name().write(0_isize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_off() {
        hold_no_huge_pages();
        // 0 where the kernel has none.
        if let Ok(disabled) = rustix::thread::transparent_huge_pages_are_disabled() {
            assert!(disabled);
        }
    }

    #[test]
    fn arenas_that_are_in_use_and_those_to_come_keep_nothing() {
        give_back_at_once();
        for name in ["arenas.dirty_decay_ms\0", "arena.0.dirty_decay_ms\0"] {
            let kept: isize = name.name().read().unwrap();
            assert_eq!(kept, 0, "{name}");
        }
    }
}
