//! One parser for each kind of text, and where in the evidence its result goes.

use super::Parser;
use super::broker_log::BrokerLogParser;
use super::class_histogram::ClassHistogramParser;
use super::collect::{Evidence, Found};
use super::gc_log::GcLogParser;
use super::heap_info::HeapInfoParser;
use super::jmx::JmxParser;
use super::kernel::KernelParser;
use super::lines::{Line, Problems};
use super::native_memory::NativeMemoryParser;
use super::prometheus::PrometheusParser;
use super::recognise::FileKind;
use super::server_properties::ServerPropertiesParser;
use super::system_properties::SystemPropertiesParser;
use super::thread_print::ThreadPrintParser;
use super::vm_command_line::VmCommandLineParser;
use super::vm_flags::VmFlagsParser;
use super::vm_version::VmVersionParser;

/// A parser at work on a part of a file.
pub(super) trait Reader {
    /// Takes the next line.
    fn line(&mut self, line: Line<'_>, problems: &mut Problems);

    /// Puts what was found into the evidence; `at` says of which file and process it is. Gives the kinds that were found.
    fn keep(
        self: Box<Self>,
        at: Found<()>,
        evidence: &mut Evidence,
        problems: &mut Problems,
    ) -> Vec<FileKind>;
}

/// A parser whose result is one piece of evidence.
struct Single<P: Parser> {
    kind: FileKind,
    parser: P,
    list: fn(&mut Evidence) -> &mut Vec<Found<P::Output>>,
}

impl<P: Parser> Reader for Single<P> {
    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        self.parser.line(line, problems);
    }

    fn keep(
        self: Box<Self>,
        at: Found<()>,
        evidence: &mut Evidence,
        problems: &mut Problems,
    ) -> Vec<FileKind> {
        let value = self.parser.finish(problems);
        (self.list)(evidence).push(at.with(value));
        vec![self.kind]
    }
}

/// A broker's log: a container's output has a GC log and the broker's settings between its lines.
#[derive(Default)]
struct Log(BrokerLogParser);

impl Reader for Log {
    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        self.0.line(line, problems);
    }

    fn keep(
        self: Box<Self>,
        at: Found<()>,
        evidence: &mut Evidence,
        problems: &mut Problems,
    ) -> Vec<FileKind> {
        let mut log = self.0.finish(problems);
        let mut kinds = Vec::new();
        let gc = std::mem::take(&mut log.gc);
        if !gc.is_empty() {
            evidence.gc_logs.push(at.with(gc));
            kinds.push(FileKind::GcLog);
        }
        if let Some((config, _)) = log.config.take() {
            evidence.server_properties.push(at.with(config));
        }
        evidence.broker_logs.push(at.with(log));
        kinds.push(FileKind::BrokerLog);
        kinds
    }
}

/// The reader of a kind of text; heap dumps have one of their own, elsewhere.
pub(super) fn reader(kind: FileKind) -> Option<Box<dyn Reader>> {
    fn single<P: Parser + Default + 'static>(
        kind: FileKind,
        list: fn(&mut Evidence) -> &mut Vec<Found<P::Output>>,
    ) -> Option<Box<dyn Reader>> {
        Some(Box::new(Single { kind, parser: P::default(), list }))
    }
    match kind {
        FileKind::VmFlags => single::<VmFlagsParser>(kind, |all| &mut all.vm_flags),
        FileKind::VmCommandLine => single::<VmCommandLineParser>(kind, |all| &mut all.command_lines),
        FileKind::VmVersion => single::<VmVersionParser>(kind, |all| &mut all.versions),
        FileKind::SystemProperties => {
            single::<SystemPropertiesParser>(kind, |all| &mut all.system_properties)
        }
        FileKind::NativeMemory => single::<NativeMemoryParser>(kind, |all| &mut all.native_memory),
        FileKind::ClassHistogram => single::<ClassHistogramParser>(kind, |all| &mut all.class_histograms),
        FileKind::HeapInfo => single::<HeapInfoParser>(kind, |all| &mut all.heap_infos),
        FileKind::ThreadPrint => single::<ThreadPrintParser>(kind, |all| &mut all.thread_prints),
        FileKind::Kernel => single::<KernelParser>(kind, |all| &mut all.kernel),
        FileKind::Prometheus => single::<PrometheusParser>(kind, |all| &mut all.metrics),
        FileKind::Jmx => single::<JmxParser>(kind, |all| &mut all.metrics),
        FileKind::ServerProperties => {
            single::<ServerPropertiesParser>(kind, |all| &mut all.server_properties)
        }
        FileKind::GcLog => single::<GcLogParser>(kind, |all| &mut all.gc_logs),
        FileKind::BrokerLog => Some(Box::<Log>::default()),
        FileKind::HeapDump | FileKind::Folder => None,
    }
}
