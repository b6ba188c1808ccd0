//! The log directories of this node: whose they are, which are missing, and which partitions lie where (KIP-858).
//!
//! Method: `meta.properties` gives each directory its id, the metadata log says in which one each partition lies, and a
//! look into the directories corrects it. Invariant: as long as a directory that has partitions is missing, nothing is
//! formatted that could be its empty mount point, and its partitions have no leader.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use weir_metadata::controller::bootstrap_records;
use weir_metadata::image::{MetadataImage, Partition, directory_id};
use weir_metadata::metadata_version;
use weir_metadata::properties::{BrokerConfig, keys};
use weir_protocol::wire::Uuid;
use weir_storage::log_dir::META_PROPERTIES;
use weir_storage::{LogDir, LogManager, MetaProperties, StorageError, TopicPartition};

use crate::broker::now_ms;
use crate::machine;
use crate::quorum;
use crate::server::{ServerError, random_uuid};

/// Partitions of a missing directory that are named; the rest are counted.
const MAX_NAMED: usize = 5;

/// Whose directories they are.
pub(crate) struct Identity {
    /// The id of the cluster.
    pub(crate) cluster_id: String,
    /// Nothing was formatted before this start.
    pub(crate) is_new: bool,
}

/// Where a partition lies: topic id, number, `directory.id`.
pub(crate) type Assignment = (Uuid, i32, Uuid);

/// The directory that holds the metadata log.
pub(crate) fn metadata_dir<'a>(logs: &'a LogManager, config: &BrokerConfig) -> &'a Arc<LogDir> {
    let wanted = config.metadata_log_dir();
    let found = logs.dirs().iter().find(|dir| dir.path() == std::path::Path::new(&wanted));
    found.unwrap_or(&logs.dirs()[0])
}

/// Refuses a first start that may be none: where no directory is formatted and formatting must be asked for, and where a
/// disk that the system knows of is not mounted. Nothing tells an emptied directory from a new one but these.
pub(crate) fn refuse_doubtful_first_start(
    paths: &[PathBuf],
    config: &BrokerConfig,
) -> Result<(), ServerError> {
    if paths.iter().any(|path| path.join(META_PROPERTIES).exists()) {
        return Ok(());
    }
    let named = || paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let property = keys::LOG_DIRS_AUTO_FORMAT.name;
    if !config.get(keys::LOG_DIRS_AUTO_FORMAT) {
        return Err(ServerError::Identity(format!(
            "no log directory is formatted ({} has no {META_PROPERTIES}), and {property}=false: mount or restore what is \
             missing; for a first start format them by kafka-storage.sh, or start once with --override {property}=true",
            named()
        )));
    }
    let is_wanted = config.written().get(property).is_some();
    match paths.iter().find_map(|path| machine::missing_mount(path)).filter(|_| !is_wanted) {
        Some(point) => Err(ServerError::Identity(format!(
            "no log directory is formatted ({}), and {} is a mount point in /etc/fstab on which nothing is mounted: mount \
             it; where this is a first start all the same, start once with --override {property}=true",
            named(),
            point.display()
        ))),
        None => Ok(()),
    }
}

/// Reads the `meta.properties` of the directories that are there; all must name this node and one cluster. On a first
/// start they are formatted. Later an unformatted one waits for [`settle`], which knows whether it is new.
///
/// # Errors
/// When they are of another node or of several clusters, and when the metadata log is missing while there is more.
pub(crate) fn identify(logs: &LogManager, config: &BrokerConfig) -> Result<Identity, ServerError> {
    let node_id = config.node_id();
    let metadata_dir = metadata_dir(logs, config);
    let mut cluster: Option<(String, &Arc<LogDir>)> = None;
    let mut without_id: Vec<(&Arc<LogDir>, MetaProperties)> = Vec::new();
    for dir in logs.dirs() {
        let path = dir.path().display();
        let properties = match dir.is_online().then(|| dir.meta_properties()).transpose() {
            Ok(properties) => properties.flatten(),
            Err(error @ StorageError::Io { .. }) => {
                dir.mark_offline(error.to_string());
                None
            }
            Err(error) => return Err(error.into()),
        };
        let Some(properties) = properties else {
            refuse_unnamed(logs, dir, node_id)?;
            continue;
        };
        if properties.node_id != node_id {
            let found = properties.node_id;
            return Err(ServerError::Identity(format!(
                "{path} belongs to node {found}, and node.id is {node_id}"
            )));
        }
        match &cluster {
            Some((id, other)) if *id != properties.cluster_id => {
                return Err(ServerError::Identity(format!(
                    "{path} belongs to cluster {}, {} to cluster {id}",
                    properties.cluster_id,
                    other.path().display()
                )));
            }
            Some(_) => {}
            None => cluster = Some((properties.cluster_id.clone(), dir)),
        }
        if properties.directory_id.is_none() {
            without_id.push((dir, properties));
        }
    }
    if let Some(reason) = metadata_dir.offline_reason() {
        return Err(ServerError::Identity(format!(
            "the metadata log is in {}, which cannot be used: {reason}; mount it or restore it",
            metadata_dir.path().display()
        )));
    }
    let Some((cluster_id, other)) = cluster else {
        let cluster_id = random_uuid().to_string();
        // The one with the metadata log first: a crash in between leaves nothing that looks as if it were lost.
        let others = logs.dirs().iter().filter(|dir| !Arc::ptr_eq(dir, metadata_dir));
        for dir in std::iter::once(metadata_dir).chain(others) {
            format(dir, &cluster_id, node_id)?;
        }
        return Ok(Identity { cluster_id, is_new: true });
    };
    if metadata_dir.id().is_none() && !without_id.iter().any(|(dir, _)| Arc::ptr_eq(dir, metadata_dir)) {
        return Err(ServerError::Identity(format!(
            "{} is to hold the metadata log and has no meta.properties, while {} belongs to cluster {cluster_id}: its \
             disk is not mounted, or it was emptied, or metadata.log.dir (by default the first of log.dirs) names \
             another directory than before; mount it, restore it, or name the right one as metadata.log.dir",
            metadata_dir.path().display(),
            other.path().display()
        )));
    }
    refuse_lost_metadata(logs, metadata_dir)?;
    // Nothing is written before all of them are known to be this node's.
    for (dir, properties) in without_id {
        dir.write_meta_properties(&MetaProperties { directory_id: Some(random_uuid()), ..properties })?;
    }
    Ok(Identity { cluster_id, is_new: false })
}

/// A directory without a `meta.properties` that holds partitions: the file was lost, and a new cluster id would make
/// clients of the old cluster take this one for another.
fn refuse_unnamed(logs: &LogManager, dir: &LogDir, node_id: i32) -> Result<(), ServerError> {
    if !dir.is_online() {
        return Ok(());
    }
    let mut holds = None;
    logs.list(dir, |partition| holds = Some(partition))?;
    let Some(holds) = holds else { return Ok(()) };
    let file = dir.path().join(META_PROPERTIES);
    Err(ServerError::Identity(format!(
        "{} is missing, yet the directory holds {holds}: write the file again with the lines \"version=1\", \
         \"node.id={node_id}\" and \"cluster.id=\" followed by the id of the cluster (it is in the meta.properties of \
         other nodes and log directories; a new one, as uuidgen makes them, will do when it is lost)",
        file.display()
    )))
}

/// A start without the metadata log would take every partition for one that no topic claims.
fn refuse_lost_metadata(logs: &LogManager, metadata_dir: &Arc<LogDir>) -> Result<(), ServerError> {
    let wanted = TopicPartition::new(quorum::TOPIC, 0);
    let is_there = metadata_dir.path().join(wanted.dir_name()).is_dir();
    for dir in logs.dirs().iter().filter(|dir| dir.is_online()) {
        let is_elsewhere = !Arc::ptr_eq(dir, metadata_dir);
        let mut holds = None;
        logs.list(dir, |partition| {
            if !is_there || (is_elsewhere && partition == wanted) {
                holds = Some(partition);
            }
        })?;
        if let Some(holds) = holds {
            return Err(ServerError::Identity(format!(
                "the metadata log is looked for in {} ({}), while {} holds {holds}: name the directory with {wanted} as \
                 metadata.log.dir, or restore it",
                metadata_dir.path().display(),
                if is_there { "there is one" } else { "there is none" },
                dir.path().display()
            )));
        }
    }
    Ok(())
}

fn format(dir: &LogDir, cluster_id: &str, node_id: i32) -> Result<(), ServerError> {
    dir.write_meta_properties(&MetaProperties {
        cluster_id: cluster_id.to_owned(),
        node_id,
        directory_id: Some(random_uuid()),
        other: BTreeMap::new(),
    })?;
    let bootstrap = bootstrap_records(metadata_version::DEFAULT_LEVEL, &[]);
    quorum::write_bootstrap(dir.path(), &bootstrap, now_ms())
        .map_err(|error| ServerError::System { what: "cannot write bootstrap.checkpoint", error })
}

/// What is there, once the metadata is known.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Ids of the directories that can be used.
    pub(crate) directories: Vec<Uuid>,
    /// Partitions that lie elsewhere than the metadata says.
    pub(crate) moved: Vec<Assignment>,
}

/// Decides about the directories that are not formatted or not there: those that cannot be the place of a missing one are
/// new, and are made; the others stay out.
///
/// # Errors
/// When no directory for partitions can be used.
pub(crate) fn settle(
    logs: &LogManager,
    image: &MetadataImage,
    identity: &Identity,
    node_id: i32,
) -> Result<Settled, ServerError> {
    let mut moved = look(logs, image, node_id);
    let known: HashSet<Uuid> = usable(logs).collect();
    let registered = image.cluster().broker(node_id).map(|broker| broker.log_dirs.as_slice());
    let gone: Vec<Uuid> =
        registered.unwrap_or_default().iter().copied().filter(|id| !known.contains(id)).collect();
    if !gone.is_empty() {
        // Which of several it was nobody can tell.
        let home = if let [only] = gone[..] { only } else { directory_id::LOST };
        let found: HashSet<(Uuid, i32)> = moved.iter().map(|(topic, index, _)| (*topic, *index)).collect();
        for_each_partition(image, node_id, |topic, partition| {
            let place = (topic.id(), partition.partition_id);
            if partition.directory_of(node_id).is_none() && !found.contains(&place) {
                moved.push((place.0, place.1, home));
            }
        });
    }
    let missing = missing(image, node_id, &known, &moved);
    for (id, (count, names)) in &missing {
        tracing::error!(
            directory = %id,
            partitions = count,
            "a log directory is missing: its partitions are offline until it is back, {} among them",
            names.join(", ")
        );
    }
    for dir in logs.partition_dirs().filter(|dir| dir.id().is_none()) {
        if let Some((id, (count, _))) = missing.first_key_value() {
            let found = if dir.is_online() { "it has no meta.properties" } else { "it is not there" };
            dir.mark_offline(format!(
                "{found}, while the directory with id {id} is missing, where {count} partitions are: mount or restore \
                 it and start again; only where it is lost for good, make this one a new directory by a meta.properties \
                 with the lines \"version=1\", \"node.id={node_id}\" and \"cluster.id={}\"",
                identity.cluster_id
            ));
        } else if !dir.is_online() && dir.path().exists() {
            // There, and the system does not let us use it.
        } else {
            match dir
                .bring_in()
                .map_err(ServerError::from)
                .and_then(|()| format(dir, &identity.cluster_id, node_id))
            {
                Ok(()) => tracing::info!(dir = %dir.path().display(), "formatted a new log directory"),
                // As with one that is there and cannot be used: the others serve.
                Err(error @ (ServerError::Storage(StorageError::Io { .. }) | ServerError::System { .. })) => {
                    dir.mark_offline(error.to_string())
                }
                Err(error) => return Err(error),
            }
        }
    }
    let directories: Vec<Uuid> = usable(logs).collect();
    if directories.is_empty() {
        let reasons = logs.partition_dirs().filter_map(|dir| {
            dir.offline_reason().map(|reason| format!("{}: {reason}", dir.path().display()))
        });
        let reason = reasons.collect::<Vec<_>>().join("; ");
        return Err(ServerError::LogDirs(StorageError::NoLogDir { reason }));
    }
    Ok(Settled { directories, moved })
}

fn usable(logs: &LogManager) -> impl Iterator<Item = Uuid> {
    logs.partition_dirs().filter(|dir| dir.is_online()).filter_map(|dir| dir.id())
}

fn for_each_partition(
    image: &MetadataImage,
    node_id: i32,
    mut visit: impl FnMut(&weir_metadata::image::TopicImage, &Partition),
) {
    for topic in image.topics().iter() {
        for partition in topic.partitions().iter().filter(|it| it.replicas.contains(&node_id)) {
            visit(topic, partition);
        }
    }
}

/// Partitions that were found in another directory than the metadata says, and not where it says. A directory that
/// cannot be listed goes offline.
fn look(logs: &LogManager, image: &MetadataImage, node_id: i32) -> Vec<Assignment> {
    let mut moved: Vec<Assignment> = Vec::new();
    let mut placed: HashSet<(Uuid, i32)> = HashSet::new();
    for dir in logs.partition_dirs().filter(|dir| dir.is_online()) {
        let Some(id) = dir.id() else { continue };
        let listed = logs.list(dir, |name| {
            let Some(topic) = image.topics().by_name(name.topic()) else { return };
            let Some(partition) = topic.partition(name.partition()) else { return };
            let home = partition.directory_of(node_id);
            if home == Some(id) || !partition.replicas.contains(&node_id) {
                return;
            }
            let is_home = home
                .and_then(|home| logs.dir_with_id(home))
                .is_some_and(|home| home.path().join(name.dir_name()).is_dir());
            if !is_home
                && logs.belongs_to(dir, &name, topic.id()).unwrap_or(false)
                && placed.insert((topic.id(), name.partition()))
            {
                moved.push((topic.id(), name.partition(), id));
            }
        });
        if let Err(error) = listed {
            dir.mark_offline(error.to_string());
        }
    }
    moved
}

/// The directories that have partitions of this node and cannot be used: how many, and the names of some.
fn missing(
    image: &MetadataImage,
    node_id: i32,
    known: &HashSet<Uuid>,
    moved: &[Assignment],
) -> BTreeMap<Uuid, (usize, Vec<String>)> {
    let moved: BTreeMap<(Uuid, i32), Uuid> = moved.iter().map(|it| ((it.0, it.1), it.2)).collect();
    let mut missing: BTreeMap<Uuid, (usize, Vec<String>)> = BTreeMap::new();
    for_each_partition(image, node_id, |topic, partition| {
        let place = (topic.id(), partition.partition_id);
        let home = moved.get(&place).copied().or_else(|| partition.directory_of(node_id));
        if let Some(home) = home.filter(|home| !known.contains(home)) {
            let (count, names) = missing.entry(home).or_default();
            *count += 1;
            if names.len() < MAX_NAMED {
                names.push(format!("{}-{}", topic.name(), partition.partition_id));
            }
        }
    });
    missing
}
