//! Quotas, SCRAM credentials, access control entries and delegation tokens: kept so that snapshots lose nothing.

use std::sync::Arc;

use weir_protocol::messages::{
    AccessControlEntryRecord, ClientQuotaRecord, DelegationTokenRecord, UserScramCredentialRecord,
};
use weir_protocol::wire::Uuid;

use super::memory;

/// Whom a quota is for: pairs of entity type and name, `None` for the default of that type; sorted by type.
pub type QuotaEntity = Vec<(String, Option<String>)>;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SecurityImage {
    quotas: imbl::OrdMap<QuotaEntity, imbl::OrdMap<String, f64>>,
    credentials: imbl::OrdMap<(i8, String), Arc<UserScramCredentialRecord>>,
    acls: imbl::OrdMap<Uuid, Arc<AccessControlEntryRecord>>,
    tokens: imbl::OrdMap<String, Arc<DelegationTokenRecord>>,
}

impl SecurityImage {
    /// Quotas by entity and key.
    pub fn quotas(&self) -> &imbl::OrdMap<QuotaEntity, imbl::OrdMap<String, f64>> {
        &self.quotas
    }

    /// SCRAM credentials by mechanism and user.
    pub fn credentials(&self) -> &imbl::OrdMap<(i8, String), Arc<UserScramCredentialRecord>> {
        &self.credentials
    }

    /// Access control entries by id.
    pub fn acls(&self) -> &imbl::OrdMap<Uuid, Arc<AccessControlEntryRecord>> {
        &self.acls
    }

    /// Delegation tokens by id.
    pub fn tokens(&self) -> &imbl::OrdMap<String, Arc<DelegationTokenRecord>> {
        &self.tokens
    }

    pub(super) fn apply_quota(&mut self, record: &ClientQuotaRecord) {
        let mut entity: QuotaEntity =
            record.entity.iter().map(|part| (part.entity_type.clone(), part.entity_name.clone())).collect();
        entity.sort();
        let mut values = self.quotas.get(&entity).cloned().unwrap_or_default();
        if record.remove {
            values.remove(&record.key);
        } else {
            values.insert(record.key.clone(), record.value);
        }
        if values.is_empty() {
            self.quotas.remove(&entity);
        } else {
            self.quotas.insert(entity, values);
        }
    }

    pub(super) fn add_credential(&mut self, record: &UserScramCredentialRecord) {
        self.credentials.insert((record.mechanism, record.name.clone()), Arc::new(record.clone()));
    }

    pub(super) fn remove_credential(&mut self, name: &str, mechanism: i8) {
        self.credentials.remove(&(mechanism, name.to_owned()));
    }

    pub(super) fn add_acl(&mut self, record: &AccessControlEntryRecord) {
        self.acls.insert(record.id, Arc::new(record.clone()));
    }

    pub(super) fn remove_acl(&mut self, id: Uuid) -> Result<(), String> {
        self.acls.remove(&id).map(|_| ()).ok_or_else(|| format!("there is no access control entry {id}"))
    }

    pub(super) fn add_token(&mut self, record: &DelegationTokenRecord) {
        self.tokens.insert(record.token_id.clone(), Arc::new(record.clone()));
    }

    pub(super) fn remove_token(&mut self, id: &str) {
        self.tokens.remove(id);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // Nothing here grows by requests that are served, so counts with a generous size each are enough.
        let quotas: usize = self.quotas.values().map(|values| 1024 + values.len() * 256).sum();
        let entry = |size: usize| memory::heap(size + 512) + memory::map_entry(32, 8);
        quotas
            + self.credentials.len() * entry(size_of::<UserScramCredentialRecord>())
            + self.acls.len() * entry(size_of::<AccessControlEntryRecord>())
            + self.tokens.len() * entry(size_of::<DelegationTokenRecord>())
    }
}
