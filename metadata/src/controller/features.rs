//! Features: what this server supports, and UpdateFeatures.

use std::collections::BTreeSet;

use weir_protocol::messages::{
    ErrorCode, FeatureLevelRecord, FeatureUpdateKey, UpdatableFeatureResult, UpdateFeaturesRequest,
    UpdateFeaturesResponse,
};
use weir_protocol::wire::UnknownTags;

use super::batch::Batch;
use super::{ApiError, Controller, ControllerResult};
use crate::image::MetadataImage;
use crate::metadata_version::{self, downgrade_loses_metadata};

/// A feature and the levels of it that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupportedFeature {
    /// Kafka's name.
    pub name: &'static str,
    /// Lowest level.
    pub min_level: i16,
    /// Highest level.
    pub max_level: i16,
}

/// The features of this server. One is listed here only when what it stands for is served.
pub const SUPPORTED_FEATURES: &[SupportedFeature] = &[SupportedFeature {
    name: metadata_version::FEATURE_NAME,
    min_level: metadata_version::MINIMUM_LEVEL,
    max_level: metadata_version::MAXIMUM_LEVEL,
}];

fn supported(name: &str) -> Option<&'static SupportedFeature> {
    SUPPORTED_FEATURES.iter().find(|feature| feature.name == name)
}

/// What of a log's finalized features this server does not serve, and how to come to what it does; `None` where it serves
/// them all. A log that has others must not be written.
pub fn unsupported_features(image: &MetadataImage) -> Option<String> {
    const TOOL: &str = "kafka-features.sh --bootstrap-server HOST:PORT";
    let level = image.features().metadata_version();
    let named = |level| metadata_version::name(level).map(|name| format!(" ({name})")).unwrap_or_default();
    let range = metadata_version::MINIMUM_LEVEL..=metadata_version::MAXIMUM_LEVEL;
    let others: Vec<(&str, i16)> =
        image.features().levels().iter().map(|(name, level)| (name.as_str(), *level)).collect();
    let mut reasons = Vec::new();
    if !range.contains(&level) {
        let (limit, tool) = match level < *range.start() {
            true => (*range.start(), "upgrade --release-version 3.9".to_owned()),
            false => (
                *range.end(),
                format!("downgrade --metadata {}", named(*range.end()).trim_matches([' ', '(', ')'])),
            ),
        };
        reasons.push(format!(
            "{} is at level {level}{}, this server serves {} to {}: with Kafka on it once more, bring it to {limit} by {TOOL} \
             {tool}",
            metadata_version::FEATURE_NAME,
            named(level),
            range.start(),
            range.end(),
        ));
    }
    if !others.is_empty() {
        let list: Vec<String> =
            others.iter().map(|(name, level)| format!("{name} at level {level}")).collect();
        let options: String = others.iter().map(|(name, _)| format!(" --feature {name}=0")).collect();
        reasons.push(format!(
            "features that this server does not serve are in force ({}): with Kafka on it once more, take them back by {TOOL} \
             downgrade{options}",
            list.join(", ")
        ));
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

impl Controller<'_> {
    /// UpdateFeatures: all updates or none.
    pub fn update_features(
        &self,
        request: &UpdateFeaturesRequest,
    ) -> ControllerResult<UpdateFeaturesResponse> {
        let mut batch = Batch::new(self.image, self.config);
        let mut failed = None;
        let mut seen = BTreeSet::new();
        let repeated: BTreeSet<&str> = request
            .feature_updates
            .iter()
            .map(|update| update.feature.as_str())
            .filter(|name| !seen.insert(*name))
            .collect();
        for update in &request.feature_updates {
            let result = if repeated.contains(update.feature.as_str()) {
                Err(ApiError::invalid_request(format!(
                    "The feature {} is given more than once.",
                    update.feature
                )))
            } else {
                self.update_feature(update, &mut batch)
            };
            if let Err(error) = result {
                failed = Some(error);
                break;
            }
        }
        let Some(error) = failed else {
            let result = |update: &FeatureUpdateKey| UpdatableFeatureResult {
                feature: update.feature.clone(),
                error_code: ErrorCode::NONE,
                error_message: None,
                ..Default::default()
            };
            let results = request.feature_updates.iter().map(result).collect();
            let reply = UpdateFeaturesResponse { error_message: None, results, ..Default::default() };
            return batch.finish(reply, request.validate_only);
        };
        // Without results, as in Kafka: the error is that of all updates, in every version.
        ControllerResult::without_records(UpdateFeaturesResponse {
            error_code: error.code,
            error_message: Some(format!(
                "The update failed for all features since the following feature had an error: {}",
                error.message
            )),
            ..Default::default()
        })
    }

    fn update_feature(&self, update: &FeatureUpdateKey, batch: &mut Batch<'_>) -> Result<(), ApiError> {
        let (name, level) = (update.feature.as_str(), update.max_version_level);
        let refuse = |reason: String| {
            Err(ApiError::new(
                ErrorCode::INVALID_UPDATE_VERSION,
                format!("Invalid update version {level} for feature {name}. {reason}"),
            ))
        };
        // Version 0 of the request has a flag in place of the type.
        let upgrade_type = if update.allow_downgrade { 2 } else { update.upgrade_type };
        if !(1..=3).contains(&upgrade_type) {
            return refuse("The controller does not support the given upgrade type.".to_owned());
        }
        if level < 0 {
            return refuse("A feature version cannot be less than 0.".to_owned());
        }
        let node_id = self.config.node_id();
        match supported(name) {
            None if level != 0 => {
                return refuse(format!("Local controller {node_id} does not support this feature."));
            }
            Some(feature) if !(feature.min_level..=feature.max_level).contains(&level) => {
                return refuse(format!(
                    "Local controller {node_id} only supports versions {}-{}",
                    feature.min_level, feature.max_level
                ));
            }
            _ => {}
        }
        let current = self.image.features().level(name);
        if level < current && upgrade_type == 1 {
            return refuse(
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe \
                 downgrade."
                    .to_owned(),
            );
        }
        if level > current && upgrade_type != 1 {
            return refuse("Can't downgrade to a newer version.".to_owned());
        }
        if name == metadata_version::FEATURE_NAME && downgrade_loses_metadata(current, level) {
            let reason = if upgrade_type == 3 {
                "Unsafe metadata downgrade is not supported in this version."
            } else {
                "Refusing to perform the requested downgrade because it might delete metadata information."
            };
            return Err(ApiError::new(
                ErrorCode::INVALID_UPDATE_VERSION,
                format!("Invalid metadata.version {level}. {reason}"),
            ));
        }
        batch.accept(vec![
            FeatureLevelRecord {
                name: name.to_owned(),
                feature_level: level,
                unknown_tags: UnknownTags::NONE,
            }
            .into(),
        ])
    }
}
