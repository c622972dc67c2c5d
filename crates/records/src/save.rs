//! Writes records: merges the input with the stored record, validates the result and assigns the version. The record is
//! not written if another writer has changed it after it was read.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Map, Value, json};
use toolwright_query::Filter;
use toolwright_types::{RecordLocation, Timestamp};

use super::error::RecordError;
use super::rules::{RecordAction, RecordRule};
use super::source::{ChangeOutcome, RecordChange};
use super::{CompiledType, Records, unknown_record};
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;

/// The maximum number of attempts to write a record while other writers change it.
const MAX_WRITE_ATTEMPTS: usize = 100;
/// The maximum length of an external id, in bytes.
const MAX_EXTERNAL_ID_BYTES: usize = 1024;
/// The maximum size of a record, in bytes.
const MAX_RECORD_BYTES: usize = 1 << 20;

/// A record from a caller, split into id, version and fields.
#[derive(Debug, Clone)]
pub(super) struct IncomingRecord {
    /// The id; `None` if the caller sent none.
    pub id: Option<String>,
    /// The version that the caller expects, if any.
    pub version: Option<i64>,
    /// The other fields.
    pub body: Map<String, Value>,
}

/// How a record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveMode {
    /// Creates the record or replaces the stored one.
    Upsert,
    /// Creates the record. Fails if it exists.
    Create,
    /// Merges the fields into the stored record; null removes a field. Fails if the record does not exist.
    Update,
}

/// A record that was written.
#[derive(Debug)]
pub struct SavedRecord {
    /// The id.
    pub id: String,
    /// The record without the fields that are hidden from the writer.
    pub record: Value,
    /// Whether the record is new.
    pub created: bool,
}

impl IncomingRecord {
    /// Parses a record from a caller. Ignores fields that the server manages, except the id and the version.
    pub(crate) fn parse(entity_type: &CompiledType, fields: Value) -> Result<Self, RecordError> {
        let invalid = |path: &str, message: &str| RecordError::invalid_record(entity_type.name(), path, message);
        let Value::Object(mut body) = fields else { return Err(invalid("", "must be a JSON object")) };
        let id = match body.shift_remove("id") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(validate_id(entity_type, &id).map_err(|rule| invalid("/id", rule))?),
            Some(_) => return Err(invalid("/id", "must be a string; omit it for a new record")),
        };
        let id = match (id, key_field_value(entity_type, &body)) {
            (Some(id), Some((field, key))) if id != key => {
                let rule = format!("`{field}` is the key, so it must equal the id; omit one of them");
                return Err(invalid(&format!("/{field}"), &rule));
            }
            (id, key) => id.or(key.map(|(_, key)| key)),
        };
        let version = match body.get("version").filter(|_| entity_type.managed.contains(&"version")) {
            None | Some(Value::Null) => None,
            Some(version) => {
                let rule = "must be the integer version that was read; omit it to skip the check";
                Some(version.as_i64().ok_or_else(|| invalid("/version", rule))?)
            }
        };
        entity_type.managed.iter().for_each(|name| drop(body.shift_remove(*name)));
        Ok(Self { id, version, body })
    }
}

/// Returns the id as the record source stores it, or the rule that the id breaks.
fn validate_id(entity_type: &CompiledType, id: &str) -> Result<String, &'static str> {
    match &entity_type.definition.records {
        None => validate_own_id(id),
        // Ids of external sources are not normalized.
        Some(_) if id.is_empty() || id.len() > MAX_EXTERNAL_ID_BYTES || id.contains('\0') => {
            Err("must have between 1 and 1024 bytes and no U+0000")
        }
        Some(_) => Ok(id.to_owned()),
    }
}

/// For a type whose records are in an SQL table: returns the name of the key field, and the value of this field in a
/// record as text.
fn key_field_value<'a>(entity_type: &'a CompiledType, body: &Map<String, Value>) -> Option<(&'a str, String)> {
    let Some(RecordLocation::Sql(sql)) = &entity_type.definition.records else { return None };
    match body.get(&sql.id_field)? {
        Value::String(text) => Some((&sql.id_field, text.clone())),
        Value::Number(number) => Some((&sql.id_field, number.to_string())),
        _ => None,
    }
}

/// Validates an id for the store of this server, and returns its stored form. The id must start with a letter or a
/// digit, and may contain letters, digits and `_.@-`.
fn validate_own_id(id: &str) -> Result<String, &'static str> {
    let first = id.starts_with(|c: char| c.is_ascii_alphanumeric());
    let letters = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte));
    if !first || !letters || id.len() > 128 {
        return Err("must have between 1 and 128 letters, digits or `_ . @ -`, and start with a letter or a digit");
    }
    Ok(normalize_id(id))
}

/// Returns the stored form of an id: lower case if it has 24 hexadecimal digits like a generated id, otherwise
/// unchanged.
pub(super) fn normalize_id(id: &str) -> String {
    let own = id.len() == 24 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if own { id.to_ascii_lowercase() } else { id.to_owned() }
}

/// The session, type and record rule that all records of one write request share.
pub(super) struct WriteContext<'a> {
    pub session: &'a Session,
    pub entity_type: &'a CompiledType,
    rule: RecordRule,
    filter: Filter,
    org: String,
}

impl Records {
    /// Writes one record. `fields` may include the id and the expected version.
    pub async fn save(
        &self,
        session: &Session,
        entity_type: &str,
        fields: Value,
        mode: SaveMode,
    ) -> Result<SavedRecord, RecordError> {
        let entity_type = self.permitted_type(session, entity_type, RecordAction::Write).await?;
        let incoming = IncomingRecord::parse(&entity_type, fields)?;
        let context = self.write_context(session, &entity_type).await?;
        // Without an expected version, the change applies to any stored version. So the change is tried again after a
        // conflict with another writer.
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let current = self.stored_record(&context, &incoming).await?;
            let created = current.is_none();
            let change = self.prepare_change(&context, current, incoming.clone(), mode).await?;
            match self.write(&context, vec![change]).await?.pop() {
                Some(ChangeOutcome::Written(mut record)) => {
                    context.rule.remove_hidden(&mut record);
                    let id = record.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
                    return Ok(SavedRecord { id, record, created });
                }
                Some(ChangeOutcome::Rejected(violation)) => {
                    return Err(RecordError::from_violation(entity_type.name(), violation));
                }
                Some(ChangeOutcome::Conflict) | None => {}
            }
        }
        let lost = "the record could not be written because other writers keep changing it";
        Err(Unavailable::new(lost, "too many conflicts").into())
    }

    pub(super) async fn write_context<'a>(
        &self,
        session: &'a Session,
        entity_type: &'a CompiledType,
    ) -> Result<WriteContext<'a>, RecordError> {
        let rule = self.inner.rules.rule(session, entity_type, RecordAction::Write).await?;
        let filter = rule.filter();
        Ok(WriteContext { session, entity_type, rule, filter, org: self.org_name(session).await? })
    }

    /// Returns the stored record with the given id, even if the caller's rule excludes the record.
    async fn stored_record(
        &self,
        context: &WriteContext<'_>,
        incoming: &IncomingRecord,
    ) -> Result<Option<Value>, RecordError> {
        match &incoming.id {
            Some(id) => self.fetch(context.session, context.entity_type, &RecordRule::default(), id).await,
            None => Ok(None),
        }
    }

    /// Computes the change to write, or the error if the record is rejected. Does no IO. A long validation does not
    /// block the thread.
    pub(super) async fn prepare_change(
        &self,
        context: &WriteContext<'_>,
        replaces: Option<Value>,
        mut incoming: IncomingRecord,
        mode: SaveMode,
    ) -> Result<RecordChange, RecordError> {
        let entity_type = context.entity_type;
        let now = self.inner.clock.now();
        let current = replaces.as_ref();
        let proposed_id = self.inner.ids.next(now);
        // Some sources find a record under several spellings of its id. The stored spelling is used.
        if let Some(id) = current.and_then(|current| current.get("id")?.as_str()) {
            incoming.id = Some(id.to_owned());
        }
        let id = incoming.id.clone().unwrap_or_else(|| proposed_id.clone());
        // A record that the rule's filters exclude cannot be changed.
        if current.is_some_and(|current| !context.filter.matches(current)) {
            return Err(RecordError::Forbidden(format!(
                "you may not write record `{id}` of type `{}`",
                entity_type.name()
            )));
        }
        match (current, mode) {
            (Some(_), SaveMode::Create) => {
                return Err(RecordError::Duplicate { name: entity_type.name().to_owned(), id });
            }
            (None, SaveMode::Update) => return Err(unknown_record(entity_type, &id)),
            (None, _) if incoming.version.is_some_and(|version| version > 0) => {
                return Err(unknown_record(entity_type, &id));
            }
            _ => {}
        }
        let before = current.map(version_of);
        if let (Some(given), Some(current)) = (incoming.version, before)
            && given != current
        {
            return Err(RecordError::Conflict { id, current });
        }
        let body = merge_body(context, current, incoming.body, mode)?;
        let Some(version) = before.unwrap_or(0).checked_add(1) else {
            let message = "the version cannot be incremented further; reset the version column";
            return Err(RecordError::invalid_record(entity_type.name(), "/version", message));
        };
        // An id that an external source will assign is not known yet, so it is not checked.
        let known = incoming.id.as_deref().or((entity_type.definition.records.is_none()).then_some(id.as_str()));
        let mut violations = entity_type.check(known, version, &body).await.err().unwrap_or_default();
        // Other programs may have stored invalid values in an external table. So only the fields that this change
        // modifies must be valid.
        if let (Some(current), true) = (current, entity_type.definition.records.is_some()) {
            violations.retain(|violation| field_changed(current, &body, &violation.path));
        }
        if !violations.is_empty() {
            return Err(RecordError::Invalid { name: entity_type.name().to_owned(), violations });
        }
        let record = assemble_record(context, known, version, body, current, now);
        if !context.filter.matches(&record) {
            let message = format!("you may not write record `{id}` of type `{}` with these values", entity_type.name());
            return Err(RecordError::Forbidden(message));
        }
        toolwright_store::check_body(&record)
            .map_err(|error| RecordError::from_invalid_body(entity_type.name(), &error))?;
        let size = record.to_string().len();
        if size > MAX_RECORD_BYTES {
            return Err(RecordError::invalid_record(
                entity_type.name(),
                "",
                format!("must have at most {MAX_RECORD_BYTES} bytes, got {size}"),
            ));
        }
        let by = context.session.principal.name.to_string();
        Ok(RecordChange { id: incoming.id, proposed_id, replaces, version, record, by, at: now })
    }

    pub(super) async fn write(
        &self,
        context: &WriteContext<'_>,
        changes: Vec<RecordChange>,
    ) -> Result<Vec<ChangeOutcome>, RecordError> {
        let (session, entity_type) = (context.session, context.entity_type);
        self.source(entity_type).write(self.record_set(session, entity_type), changes).await
    }
}

/// Returns the fields of the record after the change, without the fields that the server manages.
fn merge_body(
    context: &WriteContext<'_>,
    current: Option<&Value>,
    sent: Map<String, Value>,
    mode: SaveMode,
) -> Result<Map<String, Value>, RecordError> {
    let mut sent = Value::Object(sent);
    context.rule.remove_hidden(&mut sent);
    let mut stored = current.and_then(Value::as_object).cloned().unwrap_or_default();
    context.entity_type.managed.iter().for_each(|name| drop(stored.shift_remove(*name)));
    let mut new = match mode {
        SaveMode::Upsert | SaveMode::Create => sent,
        SaveMode::Update => {
            let mut visible = Value::Object(stored.clone());
            context.rule.remove_hidden(&mut visible);
            toolwright_catalog::registry::merge_patch(&mut visible, sent);
            visible
        }
    };
    let Some(fields) = new.as_object_mut() else { return Ok(Map::new()) };
    context.rule.restore_hidden(&stored, fields).map_err(|field| {
        let message =
            format!("`{field}` is hidden from you and part of a value that you changed; leave that value as it is");
        RecordError::Forbidden(message)
    })?;
    Ok(std::mem::take(fields))
}

/// Returns whether the top-level field of a JSON pointer differs between the stored and the new record.
fn field_changed(current: &Value, body: &Map<String, Value>, path: &str) -> bool {
    let field = path.split('/').nth(1).map(|name| name.replace("~1", "/").replace("~0", "~"));
    // A violation without a field applies to the whole record and is always reported.
    field.is_none_or(|field| current.get(&field) != body.get(&field))
}

/// Builds the complete record from `body` and the fields that the server manages.
fn assemble_record(
    context: &WriteContext<'_>,
    id: Option<&str>,
    version: i64,
    body: Map<String, Value>,
    current: Option<&Value>,
    now: Timestamp,
) -> Value {
    let mut record = Map::new();
    record.extend(id.map(|id| ("id".to_owned(), json!(id))));
    record.extend(body);
    if context.entity_type.managed.contains(&"version") {
        record.insert("version".into(), json!(version));
    }
    if context.entity_type.definition.records.is_some() {
        return Value::Object(record);
    }
    let (principal, realm) = (context.session.principal.name.as_str(), context.session.realm.name.as_str());
    let now = now.to_string();
    let before = |pointer: &str| current.and_then(|current| current.pointer(pointer)).cloned();
    record.insert(
        "auditInfo".into(),
        json!({
            "createdBy": before("/auditInfo/createdBy").unwrap_or_else(|| json!(principal)),
            "createdAt": before("/auditInfo/createdAt").unwrap_or_else(|| json!(now)),
            "lastUpdatedBy": principal,
            "lastUpdatedAt": now,
        }),
    );
    let domain = before("/dataDomain").unwrap_or_else(
        || json!({ "orgRefName": context.org, "tenantId": realm, "ownerId": principal, "dataSegment": 0 }),
    );
    record.insert("dataDomain".into(), domain);
    Value::Object(record)
}

pub(super) fn version_of(record: &Value) -> i64 {
    record.get("version").and_then(Value::as_i64).unwrap_or_default()
}

/// Generates ids of 24 hexadecimal digits that sort by time: milliseconds, a counter and a random server number.
#[derive(Debug)]
pub(crate) struct RecordIdGenerator {
    server: u32,
    count: AtomicU32,
}

impl Default for RecordIdGenerator {
    fn default() -> Self {
        Self { server: rand::random::<u32>() >> 8, count: AtomicU32::new(0) }
    }
}

impl RecordIdGenerator {
    fn next(&self, now: Timestamp) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed) & 0xff_ffff;
        let millis = now.as_micros().max(0) / 1000;
        format!("{millis:012x}{count:06x}{:06x}", self.server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_record_ids_have_24_digits_and_sort_by_time() {
        let ids = RecordIdGenerator::default();
        let generated: Vec<String> =
            (0..1000).map(|n| ids.next(Timestamp::from_micros(1_790_000_000_000_000 + n / 3))).collect();
        assert!(
            generated.is_sorted()
                && generated.iter().all(|id| id.len() == 24 && validate_own_id(id).as_ref().ok() == Some(id))
        );
    }

    #[test]
    fn invalid_record_ids_are_rejected_and_ids_of_24_hexadecimal_digits_become_lower_case() {
        for good in ["ord-1001", "a", "9.b_c@d", "507F1F77BCF86CD799439011"] {
            assert!(validate_own_id(good).is_ok(), "{good}");
        }
        assert_eq!(validate_own_id("507F1F77BCF86CD799439011").unwrap(), "507f1f77bcf86cd799439011");
        for bad in ["", "-a", "a b", "a'b", "ä", "a\0", "a\"", "a/b", &"x".repeat(129)] {
            assert!(validate_own_id(bad).is_err(), "{bad:?}");
        }
    }
}
