//! Kafka and weir side by side: every request goes to both, and what their answers differ in is kept until the end.
//!
//! Method: answers become trees of values; ids that a scenario has named are replaced by the names; places that must
//! differ (ports, times) are masked; lists without an order are sorted. What then differs and is not in the list of
//! intended differences fails the test. Kafka's broker follows its controller with a delay, so an answer that differs
//! soon after a change is asked for again, where asking changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use weir_protocol::messages::*;

use super::intended::{INTENDED, Intended, MASKED, Place, UNORDERED};
use super::intended_3_9::INTENDED_3_9;
use super::kafka::Kafka;
use super::support::{Call, Client, Running};
use super::value::{Aliases, Difference, Value, batches, differences};

/// How long Kafka's broker may take to know what its controller has decided.
const SETTLING: Duration = Duration::from_secs(30);

/// A request that is not answered within this time is taken not to be answered at all.
const PATIENCE: Duration = Duration::from_secs(120);

/// The same for one that Kafka is known not to answer.
const SILENCE: Duration = Duration::from_secs(8);

/// An answer, or the reason why there is none.
type Answer<T> = Result<T, &'static str>;

/// Something of each of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Both<T> {
    pub(crate) kafka: T,
    pub(crate) weir: T,
}

impl<T> Both<T> {
    /// The same for both.
    pub(crate) fn same(value: T) -> Both<T>
    where
        T: Clone,
    {
        Both { kafka: value.clone(), weir: value }
    }

    /// Made from each.
    pub(crate) fn map<U>(&self, f: impl Fn(&T) -> U) -> Both<U> {
        Both { kafka: f(&self.kafka), weir: f(&self.weir) }
    }
}

impl<T> Both<Option<T>> {
    /// Both answers, where neither may have cut the connection.
    pub(crate) fn answered(self) -> Both<T> {
        Both { kafka: self.kafka.expect("an answer of Kafka"), weir: self.weir.expect("an answer of weir") }
    }
}

/// Which versions are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    /// All that Kafka 4.4 has.
    Kafka4_4,
    /// Those that only Kafka 3.9 has.
    Kafka3_9,
}

/// The two brokers, a few connections to each, and what has been found so far.
pub(crate) struct Pair {
    pub(crate) release: Release,
    kafka: Kafka,
    weir: Running,
    connections: Vec<Both<Client>>,
    connection: usize,
    aliases: Both<Aliases>,
    scene: String,
    unsettled_until: Instant,
    /// What was found, each once with the versions that have it.
    found: BTreeMap<String, BTreeSet<i16>>,
    asked: BTreeSet<(i16, i16)>,
    used: BTreeSet<*const Intended>,
    masks_used: BTreeSet<*const Place>,
    answers: usize,
    names: usize,
}

impl Pair {
    pub(crate) fn new(release: Release, kafka: Kafka, weir: Running) -> Pair {
        let mut pair = Pair {
            release,
            connections: Vec::new(),
            connection: 0,
            aliases: Both::same(Aliases::default()),
            scene: String::new(),
            unsettled_until: Instant::now(),
            found: BTreeMap::new(),
            asked: BTreeSet::new(),
            used: BTreeSet::new(),
            masks_used: BTreeSet::new(),
            answers: 0,
            names: 0,
            kafka,
            weir,
        };
        let dirs = Both { kafka: pair.kafka.log_dir(), weir: pair.weir.log_dir().display().to_string() };
        pair.alias("LOG_DIR", &dirs);
        pair
    }

    fn addresses(&self) -> Both<std::net::SocketAddr> {
        Both { kafka: self.kafka.address(), weir: self.weir.address() }
    }

    /// Says what is asked about from here on.
    pub(crate) fn scene(&mut self, scene: impl Into<String>) {
        self.scene = scene.into();
    }

    /// From here on a text of each side counts as this one.
    pub(crate) fn alias(&mut self, name: &str, ids: &Both<impl Display>) {
        let alias = format!("<{name}>");
        self.aliases.kafka.add(ids.kafka.to_string(), alias.clone());
        self.aliases.weir.add(ids.weir.to_string(), alias);
    }

    /// Goes on by another connection; makes it where it is new.
    pub(crate) fn on(&mut self, connection: usize) -> &mut Pair {
        self.connection = connection;
        self
    }

    fn client(&mut self) -> &mut Both<Client> {
        let addresses = self.addresses();
        while self.connections.len() <= self.connection {
            self.connections.push(addresses.map(|address| Client::connect(*address).patience(PATIENCE)));
        }
        &mut self.connections[self.connection]
    }

    fn reconnect(&mut self) {
        let connections = self.addresses().map(|address| Client::connect(*address).patience(PATIENCE));
        self.connections[self.connection] = connections;
    }

    /// The versions of an API that are compared in this run.
    pub(crate) fn versions(&self, api: ApiKey) -> RangeInclusive<i16> {
        let (old, new) = (api.kafka_3_9(), api.kafka_4_4());
        match (self.release, old, new) {
            (Release::Kafka4_4, _, Some(new)) => new.min..=new.max,
            (Release::Kafka3_9, Some(old), Some(new)) => old.min..=old.max.min(new.min - 1),
            _ => RangeInclusive::new(1, 0),
        }
    }

    /// The versions of an API that weir serves and that are compared in this run.
    pub(crate) fn served(&mut self, api: ApiKey) -> Vec<i16> {
        let (min, max) = self.client().weir.versions(api);
        self.versions(api).filter(|version| (min..=max).contains(version)).collect()
    }

    /// The same request to both.
    pub(crate) fn ask<C: Call + Clone>(&mut self, version: i16, request: &C) -> Both<Option<C::Response>> {
        self.ask_each(version, &Both::same(request.clone()))
    }

    /// A request to each, such as with its own ids.
    pub(crate) fn ask_each<C: Call>(
        &mut self,
        version: i16,
        requests: &Both<C>,
    ) -> Both<Option<C::Response>> {
        let deadline = self.unsettled_until;
        let is_silent = self.intended().any(|intended| intended.is_silence(C::API, &self.scene));
        loop {
            let client = self.client();
            client.kafka.set_patience(if is_silent { SILENCE } else { PATIENCE });
            let answers = Both {
                kafka: client.kafka.call_or_reason(&requests.kafka, version),
                weir: client.weir.call_or_reason(&requests.weir, version),
            };
            let found = self.compare::<C>(&answers);
            if answers.kafka.is_err() || answers.weir.is_err() {
                self.reconnect();
            }
            let is_new = found.iter().any(|found| self.is_new::<C>(version, found));
            if is_new && changes_nothing(C::API) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(15));
                continue;
            }
            if !changes_nothing(C::API) {
                self.unsettled_until = Instant::now() + SETTLING;
            }
            self.keep::<C>(version, found);
            return Both { kafka: answers.kafka.ok(), weir: answers.weir.ok() };
        }
    }

    /// A request that no struct can express, to both; compared byte by byte.
    pub(crate) fn ask_raw(&mut self, code: i16, version: i16, body: &[u8]) {
        if self.release == Release::Kafka3_9 {
            return;
        }
        let client = self.client();
        let kafka = client.kafka.call_raw((code, version), body);
        let weir = client.weir.call_raw((code, version), body);
        if kafka.is_none() || weir.is_none() {
            self.reconnect();
        }
        if kafka != weir {
            let place = format!("api key {code} [{}]", self.scene);
            self.note(version, format!("{place}\n  kafka {kafka:02x?}\n  weir  {weir:02x?}"));
        }
    }

    /// Sends the same request to both and does not wait.
    pub(crate) fn send<C: Call>(&mut self, version: i16, requests: &Both<C>) {
        let client = self.client();
        client.kafka.send(&requests.kafka, version, &[]).unwrap();
        client.weir.send(&requests.weir, version, &[]).unwrap();
    }

    /// Waits for the answers to what was sent last by this connection.
    pub(crate) fn receive<C: Call>(&mut self, version: i16) -> Both<Option<C::Response>> {
        let client = self.client();
        let answers = Both {
            kafka: client.kafka.receive::<C>(version).map_err(|_| "does not answer"),
            weir: client.weir.receive::<C>(version).map_err(|_| "does not answer"),
        };
        let found = self.compare::<C>(&answers);
        self.keep::<C>(version, found);
        Both { kafka: answers.kafka.ok(), weir: answers.weir.ok() }
    }

    /// Asks Kafka until its answer is as wanted, and weir once: for what Kafka needs time to know.
    pub(crate) fn settle<C: Call>(
        &mut self,
        version: i16,
        requests: &Both<C>,
        is_so: impl Fn(&C::Response) -> bool,
    ) {
        let deadline = Instant::now() + Duration::from_secs(120);
        let client = self.client();
        for (client, request) in [(&mut client.kafka, &requests.kafka), (&mut client.weir, &requests.weir)] {
            loop {
                let answer = client.call(request, version);
                if is_so(&answer) {
                    break;
                }
                assert!(Instant::now() < deadline, "in vain: {answer:?}");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// Creates topics with this many partitions and waits until they can be used. Their ids count as `id of NAME`.
    pub(crate) fn create(
        &mut self,
        topics: &[super::support::NewTopic<'_>],
    ) -> Vec<Both<weir_protocol::wire::Uuid>> {
        let client = self.client();
        let answers = Both { kafka: client.kafka.create(topics), weir: client.weir.create(topics) };
        let mut ids = Vec::new();
        for (name, count, _) in topics {
            let of = |answer: &CreateTopicsResponse| {
                answer.topics.iter().find(|topic| topic.name == *name).expect("a topic").topic_id
            };
            let id = answers.map(of);
            self.alias(&format!("id of {name}"), &id);
            ids.push(id);
            self.wait_for(name, *count);
        }
        ids
    }

    /// Produces a batch, which both must take.
    pub(crate) fn produce(&mut self, topic: &str, index: i32, batch: Vec<u8>) {
        let client = self.client();
        client.kafka.produce_batch(topic, index, batch.clone());
        client.weir.produce_batch(topic, index, batch);
    }

    /// Deletes the records before an offset.
    pub(crate) fn delete_records(&mut self, topic: &str, partition_index: i32, offset: i64) {
        let request = DeleteRecordsRequest {
            topics: vec![DeleteRecordsTopic {
                name: topic.to_string(),
                partitions: vec![DeleteRecordsPartition { partition_index, offset, ..Default::default() }],
                ..Default::default()
            }],
            timeout_ms: 30_000,
            ..Default::default()
        };
        self.ask(2, &request);
    }

    /// Deletes a topic and waits until nobody knows it.
    pub(crate) fn delete_topic(&mut self, topic: &str) {
        let request = DeleteTopicsRequest {
            topic_names: vec![topic.to_string()],
            timeout_ms: 30_000,
            ..Default::default()
        };
        self.ask(4, &request);
        let gone = MetadataRequest {
            topics: Some(vec![MetadataRequestTopic { name: Some(topic.to_string()), ..Default::default() }]),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        self.settle(4, &Both::same(gone), |answer| !answer.topics[0].error_code.is_ok());
    }

    /// Waits until a topic has partitions that can be used.
    pub(crate) fn wait_for(&mut self, name: &str, partitions: i32) {
        let request = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![ListOffsetsTopic {
                name: name.to_string(),
                partitions: (0..partitions)
                    .map(|partition_index| ListOffsetsPartition {
                        partition_index,
                        timestamp: -1,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        self.settle(4, &Both::same(request), |answer| {
            answer.topics[0].partitions.iter().all(|partition| partition.error_code.is_ok())
        });
    }

    /// From here on the ids of all topics that there are count as the topics' names.
    pub(crate) fn name_all_topics(&mut self) {
        let request =
            MetadataRequest { topics: None, allow_auto_topic_creation: false, ..Default::default() };
        let client = self.client();
        let answers = Both { kafka: client.kafka.call(&request, 12), weir: client.weir.call(&request, 12) };
        for topic in &answers.kafka.topics {
            if let Some(other) = answers.weir.topics.iter().find(|other| other.name == topic.name) {
                let name = topic.name.as_deref().unwrap_or_default();
                self.alias(&format!("id of {name}"), &Both { kafka: topic.topic_id, weir: other.topic_id });
            }
        }
    }

    fn compare<C: Call>(&mut self, answers: &Both<Answer<C::Response>>) -> Vec<Difference> {
        let tree = |answer: &Answer<C::Response>, aliases: &Aliases| {
            let mut value = match answer {
                Err(reason) => Value::Text((*reason).to_string()),
                Ok(answer) => Value::of(answer),
            };
            if C::API == ApiKey::Fetch {
                value.at("responses[].partitions[].records", &mut |records| {
                    if let Some(bytes) = records.bytes() {
                        *records = batches(&bytes);
                    }
                });
            }
            value.replace(aliases);
            value
        };
        let none = Aliases::default();
        for path in match C::API {
            ApiKey::JoinGroup => &["member_id", "members[].member_id"][..],
            ApiKey::DescribeGroups => &["groups[].members[].member_id"],
            _ => &[],
        } {
            self.name_member(
                path,
                Both { kafka: tree(&answers.kafka, &none), weir: tree(&answers.weir, &none) },
            );
        }
        let mut trees = Both {
            kafka: tree(&answers.kafka, &self.aliases.kafka),
            weir: tree(&answers.weir, &self.aliases.weir),
        };
        for place in MASKED.iter().filter(|place| place.applies(C::API)) {
            for tree in [&mut trees.kafka, &mut trees.weir] {
                tree.at(place.path, &mut |value| {
                    self.masks_used.insert(place);
                    value.mask();
                });
            }
        }
        for place in UNORDERED.iter().filter(|place| place.applies(C::API)) {
            for tree in [&mut trees.kafka, &mut trees.weir] {
                tree.at(place.path, &mut |value| {
                    if let Value::List(values) = value {
                        self.masks_used.insert(place);
                        values.sort();
                    }
                });
            }
        }
        differences(&trees.kafka, &trees.weir)
    }

    /// Where each has one member id that was not seen before, it gets a name.
    fn name_member(&mut self, path: &str, mut answers: Both<Value>) {
        let new_ids = |answer: &mut Value, aliases: &Aliases| {
            let mut ids = BTreeSet::new();
            answer.at(path, &mut |value| {
                if let Value::Text(text) = value {
                    let id = text.trim_matches('"').to_string();
                    // Ids that nobody gave are shorter than those with a UUID.
                    if id.len() > 36 && !aliases.knows(&id) {
                        ids.insert(id);
                    }
                }
            });
            ids
        };
        let kafka = new_ids(&mut answers.kafka, &self.aliases.kafka);
        let weir = new_ids(&mut answers.weir, &self.aliases.weir);
        if let (1, 1, Some(kafka), Some(weir)) = (kafka.len(), weir.len(), kafka.first(), weir.first()) {
            self.names += 1;
            self.alias(&format!("member {}", self.names), &Both { kafka, weir });
        }
    }

    fn intended(&self) -> impl Iterator<Item = &'static Intended> + use<> {
        let of_3_9 = match self.release {
            Release::Kafka4_4 => &[],
            Release::Kafka3_9 => INTENDED_3_9,
        };
        INTENDED.iter().chain(of_3_9)
    }

    fn keep<C: Call>(&mut self, version: i16, found: Vec<Difference>) {
        if !self.versions(C::API).contains(&version) {
            return;
        }
        self.answers += 1;
        self.asked.insert((C::API.code(), version));
        for difference in found {
            match self.intended().find(|intended| intended.covers(C::API, &self.scene, &difference)) {
                Some(intended) => {
                    self.used.insert(intended);
                }
                None => self.note(version, self.describe::<C>(&difference)),
            }
        }
    }

    /// Whether a difference is neither meant nor known.
    fn is_new<C: Call>(&self, version: i16, difference: &Difference) -> bool {
        let found = self.describe::<C>(difference).replace(&format!("v{version}"), "vN");
        !self.intended().any(|intended| intended.covers(C::API, &self.scene, difference))
            && !self.found.contains_key(&found)
    }

    fn describe<C: Call>(&self, difference: &Difference) -> String {
        let Difference { path: _, place, kafka, weir } = difference;
        let (kafka, weir) = (shorten(kafka), shorten(weir));
        format!("{} [{}] {place}\n  kafka {kafka}\n  weir  {weir}", C::API, self.scene)
    }

    fn note(&mut self, version: i16, found: String) {
        // Names that hold the version would make every version a difference of its own.
        let found = found.replace(&format!("v{version}"), "vN");
        self.found.entry(found).or_default().insert(version);
    }

    /// A family of scenes ended in a panic: noted, and its connections are left.
    pub(crate) fn give_up(&mut self, family: &str, panic: &(dyn std::any::Any + Send)) {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
        self.note(-1, format!("{family} ended in [{}]: {}", self.scene, text.unwrap_or_default()));
        self.connections.clear();
        self.connection = 0;
    }

    /// Everything that was found; fails if there is anything, or if something that weir serves was never asked for.
    pub(crate) fn finish(mut self, is_whole: bool) {
        for (api, min, max) in self.advertised().into_iter().filter(|_| is_whole) {
            for version in self.versions(api).filter(|version| (min..=max).contains(version)) {
                // Produce is advertised from 0 for librdkafka's sake, and answered from 3, as in Kafka.
                let never = !self.asked.contains(&(api.code(), version));
                if never && !(api == ApiKey::Produce && version < 3) {
                    self.note(version, format!("{api} was never asked for"));
                }
            }
        }
        // Few versions are those of 3.9 alone, so that most entries of the tables of both are not seen there.
        let (table, places) = match self.release {
            Release::Kafka4_4 => (INTENDED, MASKED.iter().chain(UNORDERED)),
            Release::Kafka3_9 => (INTENDED_3_9, [].iter().chain(&[])),
        };
        if is_whole {
            let used = &self.used;
            let is_stale = |intended: &&Intended| {
                intended.is_certain && !used.contains(&std::ptr::from_ref::<Intended>(intended))
            };
            let stale: Vec<_> = table.iter().filter(is_stale).collect();
            stale.into_iter().for_each(|intended| self.note(-1, format!("not seen: {intended:?}")));
            let stale: Vec<_> =
                places.filter(|place| !self.masks_used.contains(&std::ptr::from_ref(*place))).collect();
            stale.into_iter().for_each(|place| self.note(-1, format!("not seen: {place:?}")));
        }
        println!("{} answers compared", self.answers);
        let found = self.found.iter().map(|(found, versions)| format!("{versions:?} {found}"));
        let found: Vec<String> = found.collect();
        assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
    }

    fn advertised(&mut self) -> Vec<(ApiKey, i16, i16)> {
        self.connection = 0;
        let response = self.client().weir.call(&ApiVersionsRequest::default(), 0);
        let rows = response.api_keys.iter();
        rows.map(|row| (ApiKey::from_code(row.api_key).unwrap(), row.min_version, row.max_version)).collect()
    }
}

/// Enough of a value to see what it is.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(600) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

fn changes_nothing(api: ApiKey) -> bool {
    use ApiKey::*;
    matches!(
        api,
        ListOffsets
            | Metadata
            | OffsetFetch
            | FindCoordinator
            | DescribeGroups
            | ListGroups
            | ApiVersions
            | OffsetForLeaderEpoch
            | DescribeAcls
            | DescribeConfigs
            | DescribeLogDirs
            | ListPartitionReassignments
            | DescribeClientQuotas
            | DescribeUserScramCredentials
            | DescribeQuorum
            | DescribeCluster
            | DescribeProducers
            | ListConfigResources
            | DescribeTopicPartitions
    )
}
