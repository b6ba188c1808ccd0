//! `weir bench`: how fast a broker takes and gives records.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use weir_protocol::records::Codec;

use super::print;
use crate::bench::{self, FetchOptions, ProduceOptions};

/// Arguments of `weir bench`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send records and measure how many the broker takes, and how long each waits for its acknowledgement
    Produce(ProduceArguments),
    /// Read what a topic holds and measure how much the broker gives
    Fetch(FetchArguments),
}

/// Whom to measure, and how to tell it.
#[derive(Debug, Args)]
struct Target {
    /// The brokers to begin with, of weir or of Kafka
    #[arg(long, visible_alias = "bootstrap", default_value = "127.0.0.1:9092", value_name = "HOST:PORT,…")]
    bootstrap_server: String,
    /// The topic
    #[arg(long, default_value = "weir-bench")]
    topic: String,
    /// Print text for people or JSON for programs; progress goes to standard error
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    format: String,
}

#[derive(Debug, Args)]
struct ProduceArguments {
    #[command(flatten)]
    target: Target,
    /// Partitions of the topic, if it has to be made
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(i32).range(1..=10_000))]
    partitions: i32,
    /// Producers, each with a connection to every broker
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    producers: u32,
    /// Bytes of a record's value
    #[arg(long, default_value_t = 1024, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    record_size: u32,
    /// Stop after this many records, of all producers together
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    num_records: Option<u64>,
    /// Stop after this time [default: 10, unless --num-records is given]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Records a second, of all producers together; -1 for as many as the broker takes
    #[arg(long, visible_alias = "rate", default_value_t = -1.0, value_name = "RATE", allow_negative_numbers = true, value_parser = throughput)]
    throughput: f64,
    /// When a record is acknowledged: 0, 1 or all
    #[arg(long, default_value = "all", value_parser = ["0", "1", "-1", "all"], allow_negative_numbers = true)]
    acks: String,
    /// Most bytes of a batch
    #[arg(long, default_value_t = 16_384, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    batch_size: u32,
    /// With a rate, how long a record waits for others in its batch
    #[arg(long, default_value_t = 5, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=60_000))]
    linger_ms: u64,
    /// Most requests under way on one connection
    #[arg(long, default_value_t = 5, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_in_flight: u32,
    /// How batches are compressed
    #[arg(long, value_enum, default_value = "none", value_name = "CODEC")]
    compression_type: CompressionType,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("end").args(["num_records", "seconds"]).multiple(true))]
struct FetchArguments {
    #[command(flatten)]
    target: Target,
    /// Consumers, which share the partitions
    #[arg(long, visible_alias = "threads", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    consumers: u32,
    /// Most bytes of one answer
    #[arg(long, default_value_t = 1_048_576, value_name = "BYTES", value_parser = clap::value_parser!(i32).range(1024..=104_857_600))]
    fetch_size: i32,
    /// Stop after this many records [default: what the topic holds at the start]
    #[arg(long, visible_alias = "messages", value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    num_records: Option<u64>,
    /// Stop after this time
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Begin again at the end, until --seconds or --num-records
    #[arg(long, requires = "end")]
    repeat: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CompressionType {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl From<CompressionType> for Codec {
    fn from(name: CompressionType) -> Codec {
        match name {
            CompressionType::None => Codec::None,
            CompressionType::Gzip => Codec::Gzip,
            CompressionType::Snappy => Codec::Snappy,
            CompressionType::Lz4 => Codec::Lz4,
            CompressionType::Zstd => Codec::Zstd,
        }
    }
}

/// Records a second, or -1.
fn throughput(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| *rate == -1.0 || (*rate > 0.0 && rate.is_finite()));
    rate.ok_or_else(|| "expected records a second above 0, or -1 for no limit".to_owned())
}

/// Runs the load and prints what came of it. Fails when a request failed.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    // Each lane is a connection.
    weir_broker::raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    let (report, format) = match &arguments.command {
        Command::Produce(produce) => {
            let options = produce_options(produce);
            (runtime.block_on(bench::produce(&options))?, &produce.target.format)
        }
        Command::Fetch(fetch) => {
            let options = fetch_options(fetch);
            (runtime.block_on(bench::fetch(&options))?, &fetch.target.format)
        }
    };
    match format.as_str() {
        "json" => print(&format!("{:#}\n", report.json()))?,
        _ => print(&report.text())?,
    }
    report.fault().map_or(Ok(()), Err)
}

fn produce_options(arguments: &ProduceArguments) -> ProduceOptions {
    let rate = Some(arguments.throughput).filter(|rate| *rate > 0.0);
    let seconds = arguments.seconds.or(if arguments.num_records.is_none() { Some(10) } else { None });
    ProduceOptions {
        bootstrap: arguments.target.bootstrap_server.clone(),
        topic: arguments.target.topic.clone(),
        partitions: arguments.partitions,
        producers: arguments.producers as usize,
        record_size_bytes: arguments.record_size as usize,
        batch_size_bytes: arguments.batch_size as usize,
        linger: Duration::from_millis(arguments.linger_ms),
        acks: match arguments.acks.as_str() {
            "0" => 0,
            "1" => 1,
            _ => -1,
        },
        codec: arguments.compression_type.into(),
        in_flight: arguments.max_in_flight as usize,
        rate,
        records: arguments.num_records,
        time: seconds.map(Duration::from_secs),
    }
}

fn fetch_options(arguments: &FetchArguments) -> FetchOptions {
    FetchOptions {
        bootstrap: arguments.target.bootstrap_server.clone(),
        topic: arguments.target.topic.clone(),
        consumers: arguments.consumers as usize,
        fetch_size_bytes: arguments.fetch_size,
        records: arguments.num_records,
        time: arguments.seconds.map(Duration::from_secs),
        repeat: arguments.repeat,
    }
}
