//! What the page holds, for every kind of evidence, and what can never be in it.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::compare::{Comparison, Side, compare};
use crate::evidence::Evidence;
use crate::findings::diagnose;
use crate::findings::tests::{buffer, thread};
use crate::heap::{Books, Heap, Held, Holder, Pool};
use crate::hprof::Problem;
use crate::report::{Layout, text as account_text};
use crate::verify::{Options, verify};

const HOSTILE: &str =
    "</title><script>alert(1)</script>\"'><img src=x onerror=y>&lt;\u{202e}\u{0}\u{1b}[2J]]>--!>";

/// A broker with something of everything.
pub(in crate::report) fn heap() -> Heap {
    let mut heap = Heap::default();
    heap.condition.path = "heap.hprof".into();
    let network = "data-plane-kafka-network-thread-1-ListenerName(PLAIN)-PLAINTEXT-";
    for (name, bytes) in
        [(format!("{network}0"), 50_000_000), (format!("{network}1"), 30_000_000), (HOSTILE.into(), 9_000)]
    {
        heap.threads.push(thread(&name));
        let held = Held::Cached(Some(heap.threads.len() - 1));
        heap.allocations.push(buffer(bytes, held, Books::Direct));
    }
    heap.threads.push(thread("remote-log-reader1"));
    let held = |owner: &str| {
        let path = vec!["static app.Leak.INSTANCE".to_owned(), owner.to_owned()];
        Held::Objects(Holder { owner: owner.into(), path, complete: true, thread: None })
    };
    heap.allocations.push(buffer(
        20_000_000,
        Held::InFlight(Some(3), "sun.nio.ch.IOUtil.read".into()),
        Books::Direct,
    ));
    heap.allocations.push(buffer(7_000, held("app.Leak.buffers"), Books::Direct));
    heap.allocations.push(buffer(6_000, Held::Garbage, Books::Direct));
    heap.allocations.push(buffer(500_000, held("netty.Arena.memory"), Books::None));
    let mut map = buffer(4_000, held("kafka.Index.map"), Books::Mapped);
    map.file = Some(format!("/data/{HOSTILE}.index"));
    heap.allocations.push(map);
    heap.statics.max_direct_bytes = Some(120_000_000);
    let used_bytes = 100_022_000 + 1_234;
    heap.statics.direct = Some(Pool { used_bytes, capacity_bytes: used_bytes, count: 7 });
    heap.statics.max_cached_buffer_bytes = Some(i64::MAX as u64);
    heap.statics.netty.push((Some(5_000), None));
    heap.views = 3;
    heap
}

pub(in crate::report) fn texts() -> Evidence {
    let mut evidence = Evidence::default();
    let log = "java.lang.OutOfMemoryError: Cannot reserve 41943040 bytes of direct buffer memory (allocated: 100022000, limit: \
               120000000)\n\tat java.base/sun.nio.ch.Util.getTemporaryDirectBuffer(Util.java:243)\n";
    evidence.read(Path::new(HOSTILE), log.as_bytes());
    evidence.read(Path::new("server.properties"), &b"num.network.threads=8\nnum.io.thread=<b>8\n"[..]);
    evidence.read(Path::new("nothing"), &b"hello\n"[..]);
    evidence
}

fn page_of(evidence: &Evidence, heaps: &[Heap], language: Language) -> String {
    let accounts: Vec<_> = heaps.iter().map(Account::of).collect();
    let dumps: Vec<_> = heaps
        .iter()
        .zip(&accounts)
        .map(|(heap, account)| Dump { path: &heap.condition.path, heap, account })
        .collect();
    html(evidence, &dumps, &diagnose(evidence, &dumps), language)
}

/// The tags of a page with their attributes, and its texts. Fails where tags do not close each other.
fn parse(page: &str) -> (Vec<String>, Vec<String>) {
    let (mut tags, mut texts, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = page;
    while let Some((before, after)) = rest.split_once('<') {
        if open.last().is_none_or(|name| name != "style") && !before.trim().is_empty() {
            texts.push(before.trim().to_owned());
        }
        let (tag, behind) = after.split_once('>').unwrap();
        let name = tag.split([' ', '/']).next().unwrap().to_owned();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(closed), "{page}");
        } else {
            assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
            if !["!DOCTYPE", "meta", "link"].contains(&name.as_str()) {
                open.push(name);
            }
            tags.push(tag.to_owned());
        }
        rest = behind;
    }
    assert_eq!(open, Vec::<String>::new());
    (tags, texts)
}

fn names(tags: &[String]) -> BTreeSet<&str> {
    tags.iter().map(|tag| tag.split(' ').next().unwrap()).collect()
}

#[test]
fn nothing_from_outside_becomes_markup_or_hides() {
    let mut heap = heap();
    heap.condition.path = HOSTILE.into();
    for language in [Language::English, Language::Chinese] {
        let page = page_of(&texts(), std::slice::from_ref(&heap), language);
        let texts = harmless(&page);
        // As a thread's name, a mapped file's, the dump's and another file's.
        assert!(texts.iter().filter(|text| text.contains(SHOWN)).count() >= 4, "{texts:#?}");
    }
}

/// The hostile name as it is shown.
const SHOWN: &str =
    "&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&gt;&lt;img src=x onerror=y&gt;&amp;lt;";

/// Fails where a page has markup that is not this program's; gives its texts.
fn harmless(page: &str) -> Vec<String> {
    let (tags, texts) = parse(page);
    let known: BTreeSet<_> = "!DOCTYPE a article b bdi body code dd desc div dl dt figcaption figure footer h1 h2 h3 h4 head \
                              header html li line link main meta nav ol p rect section small span style svg table tbody td \
                              text th thead title tr ul"
        .split(' ')
        .collect();
    assert_eq!(names(&tags).difference(&known).collect::<Vec<_>>(), Vec::<&&str>::new());
    let bad = |tag: &&String| tag.split(' ').any(|part| part.starts_with("on")) || tag.contains("://");
    assert_eq!(tags.iter().find(bad), None);
    assert!(!page.contains("url(") && !page.contains("@import"));
    assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
    assert!(!page.contains('\u{202e}') && page.contains("⟨U+202E⟩") && page.contains("⟨U+0000⟩"));
    let ids: Vec<_> = tags.iter().filter_map(|tag| tag.split_once(" id=\"")?.1.split('"').next()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    for link in tags.iter().filter_map(|tag| tag.strip_prefix("a href=\"#")) {
        assert!(ids.contains(&link.trim_end_matches('"')), "{link}");
    }
    texts
}

/// Both captures of a comparison, the second without its largest thread.
fn compared(language: Language) -> (Comparison, String) {
    let (before, mut after) = (heap(), heap());
    after.allocations.remove(0);
    let evidence = [texts(), texts()];
    let accounts = [Account::of(&before), Account::of(&after)];
    let dump = |heap, account| vec![Dump { path: Path::new("heap.hprof"), heap, account }];
    let dumps = [dump(&before, &accounts[0]), dump(&after, &accounts[1])];
    let comparison = compare(&Side::of(&evidence[0], &dumps[0]), &Side::of(&evidence[1], &dumps[1]));
    let page = comparison_html(&comparison, &evidence[0], &evidence[1], language);
    (comparison, page)
}

#[test]
fn the_page_of_a_comparison_draws_both_and_has_the_exact_change() {
    for language in [Language::English, Language::Chinese] {
        let (comparison, page) = compared(language);
        let texts = harmless(&page);
        assert!(texts.iter().any(|text| text.contains(SHOWN)), "{texts:#?}");
        let network = comparison.groups.iter().find(|group| group.label.en == "network PLAIN").unwrap();
        assert_eq!(network.sum_bytes.change(), -50_000_000);
        assert!(texts.iter().any(|text| text == "-50,000,000"));
        let bars: Vec<_> = page.matches("class=\"k k-range before\"").collect();
        assert_eq!(bars.len(), 2, "network threads and readers; 9,000 bytes beside them cannot be seen");
        assert!(page.contains("data-bytes=\"80000000\"") && page.contains("data-bytes=\"30000000\""));
    }
    let (_, page) = compared(Language::English);
    assert!(page.contains("<h1>Direct memory stayed at 100,023,234 bytes.</h1>"), "the JVM's own count");
}

#[test]
fn the_page_of_a_verification_has_every_check_with_its_outcome() {
    let heap = heap();
    let (account, evidence) = (Account::of(&heap), texts());
    let dumps = [Dump { path: &heap.condition.path, heap: &heap, account: &account }];
    let verification = verify(&Facts::of(&evidence, &dumps), &Options::default());
    for (language, verdict) in [(Language::English, "<h1>FAILS: "), (Language::Chinese, "<h1>未通过：")] {
        let page = verification_html(&verification, &evidence, language);
        harmless(&page);
        assert!(page.contains(verdict), "{page}");
        for check in &verification.checks {
            let outcome = check.outcome.name();
            let tag = format!("data-id=\"{}\" data-outcome=\"{outcome}\"", check.id);
            assert_eq!(page.matches(&tag).count(), 1, "{tag}");
        }
    }
}

#[test]
fn the_page_forbids_itself_to_load_and_run_anything() {
    let page = page_of(&texts(), &[heap()], Language::English);
    let policy = "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\"";
    let place = page.find(policy).unwrap();
    assert!(place < page.find("<style>").unwrap() && page.contains("<html lang=\"en\">"));
}

#[test]
fn the_structure_is_that_of_the_account() {
    let page = page_of(&texts(), &[heap()], Language::English);
    let (tags, _) = parse(&page);
    let ids: Vec<_> = tags
        .iter()
        .filter(|tag| {
            tag.starts_with("section") || tag.starts_with("article") || tag.starts_with("svg class")
        })
        .map(|tag| tag.split('"').nth(1).map_or("", |id| id))
        .collect();
    assert_eq!(ids.first(), Some(&"chart"), "{ids:?}");
    let sections: Vec<_> = ids.iter().filter(|id| !id.starts_with("finding ")).collect();
    assert_eq!(
        sections,
        [
            &"chart",
            &"findings",
            &"dump",
            &"dump-1-memory",
            &"dump-1-threads",
            &"chart",
            &"chart",
            &"dump-1-owners",
            &"dump-1-largest",
            &"dump-1-files",
            &"dump-1-proofs",
            &"evidence"
        ]
    );
    assert!(ids.len() - sections.len() >= 5, "{ids:?}");
    // Exact numbers, readable ones beside them, and the difference to the JVM's own count.
    for part in [
        "80,000,000<small>76.29 MiB</small>",
        "+1,234",
        "100,022,000",
        "limit 120,000,000 (114.44 MiB)",
        "41,943,040",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Every chart says what it shows.
    let charts = tags.iter().filter(|tag| tag.starts_with("svg class"));
    assert!(charts.clone().count() == 3 && charts.clone().all(|tag| tag.contains("role=\"img\"")));
    assert_eq!(page.matches("<desc").count(), 3);
}

#[test]
fn widths_are_in_proportion_to_the_bytes() {
    let page = page_of(&Evidence::default(), &[heap()], Language::English);
    let (tags, _) = parse(&page);
    let attribute = |tag: &str, name: &str| -> f64 {
        let (_, rest) = tag.split_once(&format!(" {name}=\"")).unwrap();
        rest.split('"').next().unwrap().trim_end_matches('%').parse().unwrap()
    };
    let parts: Vec<_> = tags
        .iter()
        .filter(|tag| tag.starts_with("rect class=\"k k-") && tag.contains("height=\"30\""))
        .collect();
    assert_eq!(parts.len(), 7, "{parts:#?}");
    for tag in parts {
        let wide = attribute(tag, "data-bytes") * 100.0 / 120_000_000.0;
        assert!((attribute(tag, "width") - wide).abs() < 0.0002, "{tag}");
    }
    let sums: Vec<_> =
        tags.iter().filter(|tag| tag.contains("k-cached sum")).map(|tag| attribute(tag, "width")).collect();
    assert_eq!(sums, [100.0, 25.0, 0.0112]);
}

#[test]
fn without_evidence_there_is_still_a_page() {
    let page = page_of(&Evidence::default(), &[], Language::English);
    parse(&page);
    assert!(page.contains("<h1>The evidence supports none of the rules</h1>") && !page.contains("<svg"));
    // A dump without anything in it.
    let page = page_of(&Evidence::default(), &[Heap::default()], Language::Chinese);
    parse(&page);
    assert!(page.contains("<html lang=\"zh-CN\">") && page.contains("转储中没有记录"), "{page}");
}

#[test]
fn several_dumps_have_places_of_their_own() {
    let page = page_of(&texts(), &[heap(), heap(), Heap::default()], Language::English);
    let (tags, _) = parse(&page);
    let ids: Vec<_> = tags.iter().filter_map(|tag| tag.split_once(" id=\"")?.1.split('"').next()).collect();
    let unique: BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    for link in tags.iter().filter_map(|tag| tag.strip_prefix("a href=\"#")) {
        assert!(ids.contains(&link.trim_end_matches('"')), "{link}");
    }
    assert!(page.contains(">2. Native memory<"));
}

#[test]
fn damage_is_said_at_the_dump() {
    let mut heap = heap();
    heap.condition.truncated = Some(1_000);
    heap.condition.names_redacted = true;
    heap.condition
        .problems
        .push(Problem { at: 77, what: text!("unknown sub-record 0xc3", "未知的子记录 0xc3") });
    for (language, parts) in [
        (
            Language::English,
            [
                "1,000 bytes or more are missing",
                "at byte 77: unknown sub-record",
                "have no names",
                ">at least<",
            ],
        ),
        (Language::Chinese, ["至少缺少 1,000 字节", "第 77 字节处：未知的子记录", "线程没有名字", ">至少<"]),
    ] {
        let page = page_of(&Evidence::default(), std::slice::from_ref(&heap), language);
        parse(&page);
        for part in parts {
            assert!(page.contains(part), "{part}");
        }
    }
}

/// Whether a text is a sentence in English: three plain words in a row of which at least one is of a sentence.
fn is_english(text: &str) -> bool {
    let words: Vec<_> = text.split_whitespace().collect();
    let plain = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
    !text.contains(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
        && words.windows(3).any(|three| three.iter().all(&plain))
}

#[test]
fn no_sentence_of_the_chinese_report_is_english() {
    assert!(
        is_english("takes a restart")
            && !is_english("需要重启 takes a restart")
            && !is_english("num.io.threads")
    );
    let mut heap = heap();
    let (evidence, quoted) = (texts(), "Cannot reserve 41943040 bytes");
    for damaged in [false, true] {
        if damaged {
            heap.condition.truncated = Some(5);
            heap.condition.names_redacted = true;
            heap.condition.gzip_problem = Some(text!("the gzip data is cut off", "gzip 数据被截断"));
            heap.statics.direct = None;
        }
        let page = page_of(&evidence, std::slice::from_ref(&heap), Language::Chinese);
        let account = Account::of(&heap);
        let layout = Layout { language: Language::Chinese, ..Layout::default() };
        let text = account_text(&heap, &account, layout);
        let findings = diagnose(&evidence, &[Dump { path: Path::new("x"), heap: &heap, account: &account }]);
        assert!(findings.len() >= 5);
        let (_, mut all) = parse(&page);
        all.extend(text.lines().map(str::to_owned));
        for finding in &findings {
            let cautions = finding.remedies.iter().filter_map(|remedy| remedy.caution.as_ref());
            let actions = finding.remedies.iter().map(|remedy| &remedy.action);
            all.extend(
                [&finding.title, &finding.cause]
                    .into_iter()
                    .chain(cautions)
                    .chain(actions)
                    .map(|text| text.zh.clone()),
            );
        }
        let english: Vec<_> = all.iter().filter(|text| is_english(text) && !text.contains(quoted)).collect();
        assert_eq!(english, Vec::<&String>::new());
    }
}

#[test]
fn the_accounts_text_fits_every_terminal_and_commands_none() {
    let mut heap = heap();
    heap.condition.path = HOSTILE.into();
    heap.condition.truncated = Some(5);
    for allocation in &mut heap.allocations {
        allocation.bytes = allocation.bytes.saturating_mul(1_000_000);
        allocation.capacity = allocation.bytes;
    }
    let account = Account::of(&heap);
    for language in [Language::English, Language::Chinese] {
        for width in (40..=140).step_by(5) {
            let text = account_text(&heap, &account, Layout { width, colour: false, language });
            for row in text.lines() {
                assert!(crate::report::text_columns(row) <= width, "{width}: {row}");
            }
            assert!(!text.chars().any(|c| c != '\n' && c.is_control()) && !text.contains('\u{202e}'));
        }
    }
}

/// Names of threads are whatever somebody calls them.
#[test]
fn a_thousand_groups_are_listed_up_to_a_limit_that_is_said() {
    let mut heap = Heap::default();
    for at in 0..1_000_u32 {
        // Letters, for numbers are one group.
        let name: String =
            at.to_string().chars().filter_map(|c| char::from_digit(c.to_digit(10)? + 10, 36)).collect();
        heap.threads.push(thread(&format!("{name}-\u{1b}[2J{}", "x".repeat(300))));
        let bytes = 1_000 + u64::from(at);
        heap.allocations.push(buffer(bytes, Held::Cached(Some(at as usize)), Books::Direct));
    }
    let account = Account::of(&heap);
    assert_eq!(account.groups.len(), 1_000);
    let text = account_text(&heap, &account, Layout::default());
    assert!(text.lines().count() < 100 && text.contains("and 960 more"), "{text}");
    assert!(text.lines().all(|row| crate::report::text_columns(row) <= 100) && !text.contains('\u{1b}'));
    let page = page_of(&Evidence::default(), &[heap], Language::English);
    parse(&page);
    assert!(page.contains("and 800 more") && page.matches("k-cached sum").count() == 40);
}
