//! Prometheus' text format, written piece by piece while it is sent: a page of any length takes a few pieces of memory.
//!
//! Method: whoever renders writes into one piece; when it is full it goes to the connection through a channel that holds
//! one, and the renderer waits until its reader has taken the piece before.

use std::fmt::{self, Write};

use hyper::body::Bytes;
use tokio::sync::mpsc;
use weir_budget::Lease;

/// A piece is sent when it has this many bytes.
const PIECE_BYTES: usize = 16 * 1024;
/// The longest line that is written at once: a label of 249 bytes, escaped, and the rest.
const MAX_LINE_BYTES: usize = 2048;
/// Memory of a page: the piece in the making, the one that waits, the one that is sent.
pub(super) const PAGE_BYTES: u64 = 3 * (PIECE_BYTES + MAX_LINE_BYTES) as u64;

/// Labels of one series.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

/// The kind of a family of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only grows; its name ends in `_total`.
    Counter,
    /// Buckets, a sum and a count.
    Histogram,
}

/// The reader has gone.
#[derive(Debug)]
pub(super) struct Gone;

/// A page in the making.
pub(super) struct Page {
    text: String,
    /// `kafka_server_...{`: what lines of the family begin with, its suffix included.
    name: String,
    out: mpsc::Sender<Bytes>,
    _lease: Lease,
}

/// A piece on its way; the bytes keep no more than their own memory.
fn piece(text: &mut String) -> Bytes {
    let next = String::with_capacity(PIECE_BYTES + MAX_LINE_BYTES);
    Bytes::from(std::mem::replace(text, next).into_bytes())
}

impl Page {
    /// An empty page whose pieces go to `out`; `lease` covers [`PAGE_BYTES`].
    pub(super) fn new(out: mpsc::Sender<Bytes>, lease: Lease) -> Self {
        let text = String::with_capacity(PIECE_BYTES + MAX_LINE_BYTES);
        Page { text, name: String::new(), out, _lease: lease }
    }

    /// Sends what has gathered, if it is enough for a piece.
    pub(super) async fn breathe(&mut self) -> Result<(), Gone> {
        if self.text.len() < PIECE_BYTES {
            return Ok(());
        }
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Gone> {
        let piece = piece(&mut self.text);
        self.out.send(piece).await.map_err(|_| Gone)
    }

    /// Sends the rest.
    pub(super) async fn finish(mut self) -> Result<(), Gone> {
        if self.text.is_empty() { Ok(()) } else { self.flush().await }
    }

    /// Begins a family; `name` is without the suffix of counters.
    pub(super) async fn family(&mut self, name: &str, help: &str, kind: Kind) -> Result<(), Gone> {
        self.breathe().await?;
        let (suffix, kind) = match kind {
            Kind::Gauge => ("", "gauge"),
            Kind::Counter => ("_total", "counter"),
            Kind::Histogram => ("", "histogram"),
        };
        self.name.clear();
        self.name.push_str(name);
        self.name.push_str(suffix);
        // A String takes whatever is written.
        let _ = writeln!(self.text, "# HELP {0} {help}.\n# TYPE {0} {kind}", self.name);
        Ok(())
    }

    /// Writes one line of the family.
    pub(super) async fn value(&mut self, labels: Labels<'_>, value: impl fmt::Display) -> Result<(), Gone> {
        self.line("", labels, &[], value).await
    }

    /// Writes a histogram: `buckets` of upper bounds and counts, each of its bucket alone.
    pub(super) async fn histogram(
        &mut self,
        labels: Labels<'_>,
        buckets: &[(f64, u64)],
        sum: f64,
    ) -> Result<(), Gone> {
        let mut count = 0;
        for (bound, more) in buckets {
            count += more;
            let mut text = Small::default();
            let _ = if bound.is_finite() { write!(text, "{bound}") } else { write!(text, "+Inf") };
            self.line("_bucket", labels, &[("le", text.as_str())], count).await?;
        }
        self.line("_sum", labels, &[], sum).await?;
        self.line("_count", labels, &[], count).await
    }

    async fn line(
        &mut self,
        suffix: &str,
        labels: Labels<'_>,
        more: Labels<'_>,
        value: impl fmt::Display,
    ) -> Result<(), Gone> {
        self.breathe().await?;
        self.text.push_str(&self.name);
        self.text.push_str(suffix);
        let mut before = '{';
        for (name, label) in labels.iter().chain(more) {
            self.text.push(before);
            self.text.push_str(name);
            self.text.push_str("=\"");
            escape(&mut self.text, label);
            self.text.push('"');
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
        Ok(())
    }

    /// A family of one series without labels.
    pub(super) async fn gauge(
        &mut self,
        name: &str,
        help: &str,
        value: impl fmt::Display,
    ) -> Result<(), Gone> {
        self.family(name, help, Kind::Gauge).await?;
        self.value(&[], value).await
    }

    /// The same for a counter.
    pub(super) async fn counter(
        &mut self,
        name: &str,
        help: &str,
        value: impl fmt::Display,
    ) -> Result<(), Gone> {
        self.family(name, help, Kind::Counter).await?;
        self.value(&[], value).await
    }
}

fn escape(out: &mut String, label: &str) {
    for char in label.chars() {
        match char {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

/// A short text without an allocation: a number or a version.
#[derive(Default)]
pub(super) struct Small {
    bytes: [u8; 32],
    length: usize,
}

impl Small {
    /// `value` as text; cut off behind 32 bytes.
    pub(super) fn of(value: impl fmt::Display) -> Self {
        let mut small = Small::default();
        let _ = write!(small, "{value}");
        small
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl Write for Small {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.length..self.length + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weir_budget::{Budget, Holder};

    use super::*;

    #[tokio::test]
    async fn a_long_page_comes_in_pieces_and_its_lease_goes_with_it() {
        let budget = Budget::root("http", PAGE_BYTES);
        let lease = budget.try_lease(PAGE_BYTES, Holder::new("test", 0)).unwrap();
        let (sender, mut receiver) = mpsc::channel(1);
        let writer = tokio::spawn(async move {
            let mut page = Page::new(sender, lease);
            page.family("x", "Help", Kind::Counter).await?;
            for number in 0..10_000 {
                page.value(&[("name", "a \"b\" \\ \n"), ("n", Small::of(number).as_str())], number).await?;
            }
            page.finish().await
        });
        let (mut text, mut pieces) = (Vec::new(), 0);
        while let Some(piece) = receiver.recv().await {
            assert!(piece.len() <= PIECE_BYTES + MAX_LINE_BYTES);
            pieces += 1;
            text.extend_from_slice(&piece);
        }
        writer.await.unwrap().unwrap();
        assert!(pieces > 10, "{pieces}");
        assert_eq!(budget.used(), 0);
        let text = String::from_utf8(text).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("# HELP x_total Help."));
        assert_eq!(lines.next(), Some("# TYPE x_total counter"));
        assert_eq!(lines.next(), Some(r#"x_total{name="a \"b\" \\ \n",n="0"} 0"#));
        assert_eq!(lines.count(), 9_999);
    }

    #[tokio::test]
    async fn a_reader_that_goes_ends_the_page() {
        let budget = Budget::root("http", PAGE_BYTES);
        let lease = budget.try_lease(PAGE_BYTES, Holder::new("test", 0)).unwrap();
        let (sender, receiver) = mpsc::channel(1);
        drop(receiver);
        let mut page = Page::new(sender, lease);
        page.gauge("x", "Help", 1).await.unwrap();
        assert!(page.finish().await.is_err());
        assert_eq!(budget.used(), 0);
    }
}
