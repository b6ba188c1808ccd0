//! A text of limited size under a lease: it is leased whole before it is rendered and shrunk to what it takes after.

use std::fmt;
use std::io;

use hyper::body::Bytes;
use weir_budget::{Budget, BudgetError, Holder, Lease};

/// Most bytes of one document: what `/memory` and `/health` name is limited far below it.
pub(crate) const MAX_BYTES: usize = 64 * 1024;

/// A text that is being rendered.
#[derive(Debug)]
pub(crate) struct Document {
    text: Vec<u8>,
    lease: Lease,
}

impl Document {
    /// Waits for the memory of one document.
    pub(crate) async fn lease(budget: &Budget) -> Result<Lease, BudgetError> {
        budget.lease(MAX_BYTES as u64, Holder::new("http document", 0)).await
    }

    /// An empty document; `lease` covers [`MAX_BYTES`].
    pub(crate) fn new(lease: Lease) -> Self {
        // Reserved at once, so that it never moves; pages that are not written take no memory.
        Document { text: Vec::with_capacity(MAX_BYTES), lease }
    }

    /// The finished text; its lease lives as long as the bytes do.
    pub(crate) fn into_bytes(mut self) -> Bytes {
        self.text.shrink_to_fit();
        self.lease.shrink_to(self.text.capacity() as u64);
        Bytes::from_owner(self)
    }

    fn push(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= MAX_BYTES - self.text.len();
        if fits {
            self.text.extend_from_slice(bytes);
        }
        fits
    }
}

impl AsRef<[u8]> for Document {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl fmt::Write for Document {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.push(text.as_bytes()) { Ok(()) } else { Err(fmt::Error) }
    }
}

impl io::Write for Document {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.push(bytes) { Ok(bytes.len()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn a_document_ends_at_its_limit_and_its_lease_shrinks_and_goes_with_its_bytes() {
        let budget = Budget::root("http", MAX_BYTES as u64);
        let lease = budget.try_lease(MAX_BYTES as u64, Holder::new("test", 0)).unwrap();
        let mut document = Document::new(lease);
        assert!(document.write_str(&"x".repeat(MAX_BYTES)).is_ok());
        assert!(document.write_str("y").is_err());
        drop(document);
        let lease = budget.try_lease(MAX_BYTES as u64, Holder::new("test", 0)).unwrap();
        let mut document = Document::new(lease);
        document.write_str("short").unwrap();
        let bytes = document.into_bytes();
        let other = bytes.clone();
        assert_eq!((&bytes[..], budget.used()), (&b"short"[..], 5));
        drop(bytes);
        assert_eq!(budget.used(), 5);
        drop(other);
        assert_eq!(budget.used(), 0);
    }
}
