//! Writing a record: merged, checked, given its version, and written if nobody was faster.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Map, Value, json};
use toolwright_query::Filter;
use toolwright_types::{RecordsIn, Timestamp};

use super::error::RecordError;
use super::rules::{RecordAction, RecordRule};
use super::source::{Change, Written};
use super::{CompiledType, Records, no_record};
use crate::Unavailable;
use crate::access::Session;

/// How many writers may overtake one that names no version before it gives up.
const MOST_OVERTAKEN: usize = 100;
/// Bytes of an id that somebody else gave.
const LONGEST_KEY: usize = 1024;
/// Bytes of a record.
const LARGEST: usize = 1 << 20;

/// A record as someone sends it, taken apart.
#[derive(Debug, Clone)]
pub(super) struct Entity {
    /// Which one; a new one when absent.
    pub id: Option<String>,
    /// The version that was read, if that matters.
    pub version: Option<i64>,
    /// Its fields.
    pub body: Map<String, Value>,
}

/// What is to become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// It stands from now on as it was sent, whether it was there or not.
    Save,
    /// It is new.
    Create,
    /// Its fields are merged over what is there; null removes one.
    Update,
}

/// A record that was written.
#[derive(Debug)]
pub struct Saved {
    /// Its id.
    pub id: String,
    /// The record as its writer may see it.
    pub record: Value,
    /// Whether it is new.
    pub created: bool,
}

impl Entity {
    /// Takes apart what someone sent. What the server manages is ignored, as in definitions; id and version are not.
    pub fn read(of: &CompiledType, fields: Value) -> Result<Self, RecordError> {
        let unfit = |path: &str, message: &str| RecordError::unfit(of.name(), path, message);
        let Value::Object(mut body) = fields else { return Err(unfit("", "a record is a JSON object")) };
        let id = match body.shift_remove("id") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(of.checked_id(&id).map_err(|rule| unfit("/id", rule))?),
            Some(_) => return Err(unfit("/id", "an id is a text; leave it out for a new record")),
        };
        let id = match (id, of.key_in(&body)) {
            (Some(id), Some((field, key))) if id != key => {
                let rule =
                    format!("`{field}` tells records apart, so it must be the same as the id; leave one of them out");
                return Err(unfit(&format!("/{field}"), &rule));
            }
            (id, key) => id.or(key.map(|(_, key)| key)),
        };
        let version = match body.get("version").filter(|_| of.managed.contains(&"version")) {
            None | Some(Value::Null) => None,
            Some(version) => {
                let rule = "a version is the whole number that was read; leave it out if it does not matter";
                Some(version.as_i64().ok_or_else(|| unfit("/version", rule))?)
            }
        };
        of.managed.iter().for_each(|name| drop(body.shift_remove(*name)));
        Ok(Self { id, version, body })
    }
}

impl CompiledType {
    /// The id as the place of the records has it, or what it should look like.
    fn checked_id(&self, id: &str) -> Result<String, &'static str> {
        match &self.definition.records {
            None => checked_id(id),
            // Ids of others are what they are.
            Some(_) if id.is_empty() || id.len() > LONGEST_KEY || id.contains('\0') => {
                Err("an id has 1 to 1024 bytes, and not the character U+0000")
            }
            Some(_) => Ok(id.to_owned()),
        }
    }

    /// The field that tells records apart where that is another one than `id`, and its text in a record.
    fn key_in(&self, body: &Map<String, Value>) -> Option<(&str, String)> {
        let Some(RecordsIn::Sql(sql)) = &self.definition.records else { return None };
        match body.get(&sql.id_field)? {
            Value::String(text) => Some((&sql.id_field, text.clone())),
            Value::Number(number) => Some((&sql.id_field, number.to_string())),
            _ => None,
        }
    }
}

/// Letters, digits and `_ . @ -`, the first of them a letter or a digit. Of the form of our own, case does not count.
fn checked_id(id: &str) -> Result<String, &'static str> {
    let first = id.starts_with(|c: char| c.is_ascii_alphanumeric());
    let letters = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte));
    if !first || !letters || id.len() > 128 {
        return Err("an id has 1 to 128 letters, digits and `_ . @ -`, and begins with a letter or a digit");
    }
    Ok(same_case(id))
}

/// The form in which an id is stored: that of our own in lower case, others as they are.
pub(super) fn same_case(id: &str) -> String {
    let own = id.len() == 24 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if own { id.to_ascii_lowercase() } else { id.to_owned() }
}

/// What is the same for every record of one request.
pub(super) struct Writing<'a> {
    pub session: &'a Session,
    pub of: &'a CompiledType,
    rule: RecordRule,
    filter: Filter,
    org: String,
}

impl Records {
    /// Writes one record: its fields, with its id and the version that was read if there are any.
    pub async fn save(&self, session: &Session, of: &str, fields: Value, wish: Wish) -> Result<Saved, RecordError> {
        let of = self.permitted(session, of, RecordAction::Write).await?;
        let entity = Entity::read(&of, fields)?;
        let writing = self.writing(session, &of).await?;
        // Without a version the change applies to whatever is there: one that another writer overtook is made again.
        for _ in 0..MOST_OVERTAKEN {
            let current = self.current(&writing, &entity).await?;
            let created = current.is_none();
            let change = self.decide(&writing, current, entity.clone(), wish)?;
            match self.write(&writing, vec![change]).await?.pop() {
                Some(Written::Done(mut record)) => {
                    writing.rule.strip(&mut record);
                    let id = record.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
                    return Ok(Saved { id, record, created });
                }
                Some(Written::Refused(violation)) => {
                    return Err(RecordError::refused(of.name(), violation));
                }
                Some(Written::Overtaken) | None => {}
            }
        }
        let lost = "so many others change this record that it could not be written";
        Err(Unavailable::new(lost)("overtaken".into()).into())
    }

    pub(super) async fn writing<'a>(
        &self,
        session: &'a Session,
        of: &'a CompiledType,
    ) -> Result<Writing<'a>, RecordError> {
        let rule = self.0.rules.rule(session, of, RecordAction::Write).await?;
        let filter = rule.filter();
        Ok(Writing { session, of, rule, filter, org: self.org_name(session).await? })
    }

    /// What is stored under the id that was given, whoever may see it.
    async fn current(&self, writing: &Writing<'_>, entity: &Entity) -> Result<Option<Value>, RecordError> {
        match &entity.id {
            Some(id) => self.one(writing.session, writing.of, &RecordRule::default(), id).await,
            None => Ok(None),
        }
    }

    /// What is to be written, or why not. Looks nothing up.
    pub(super) fn decide(
        &self,
        writing: &Writing<'_>,
        replaces: Option<Value>,
        mut entity: Entity,
        wish: Wish,
    ) -> Result<Change, RecordError> {
        let of = writing.of;
        let now = self.0.clock.now();
        let current = replaces.as_ref();
        let proposed = self.0.ids.next(now);
        // Some places know an id by more than one spelling.
        if let Some(id) = current.and_then(|current| current.get("id")?.as_str()) {
            entity.id = Some(id.to_owned());
        }
        let id = entity.id.clone().unwrap_or_else(|| proposed.clone());
        // A record that the rule does not show can be changed no more than it can be seen.
        if current.is_some_and(|current| !writing.filter.matches(current)) {
            return Err(RecordError::Refused(format!("you may not write record `{id}` of type `{}`", of.name())));
        }
        match (current, wish) {
            (Some(_), Wish::Create) => return Err(RecordError::Duplicate { name: of.name().to_owned(), id }),
            (None, Wish::Update) => return Err(no_record(of, &id)),
            (None, _) if entity.version.is_some_and(|version| version > 0) => return Err(no_record(of, &id)),
            _ => {}
        }
        let before = current.map(version_of);
        if let (Some(given), Some(current)) = (entity.version, before)
            && given != current
        {
            return Err(RecordError::Conflict { id, current });
        }
        let body = body(writing, current, entity.body, wish)?;
        let Some(version) = before.unwrap_or(0).checked_add(1) else {
            let message = "the record is at the last version that there is; let somebody set its column back";
            return Err(RecordError::unfit(of.name(), "/version", message));
        };
        // An id that somebody else is going to give cannot be checked before.
        let known = entity.id.as_deref().or((of.definition.records.is_none()).then_some(id.as_str()));
        let mut violations = of.check(known, version, &body).err().unwrap_or_default();
        // What others have put into their table is theirs: whoever does not touch it need not mend it.
        if let (Some(current), true) = (current, of.definition.records.is_some()) {
            violations.retain(|violation| differs(current, &body, &violation.path));
        }
        if !violations.is_empty() {
            return Err(RecordError::Invalid { name: of.name().to_owned(), violations });
        }
        let record = assembled(writing, known, version, body, current, now);
        if !writing.filter.matches(&record) {
            let message = format!("you may not make record `{id}` of type `{}` as you sent it", of.name());
            return Err(RecordError::Refused(message));
        }
        toolwright_store::check_body(&record).map_err(|error| RecordError::unstorable(of.name(), &error))?;
        let size = record.to_string().len();
        if size > LARGEST {
            return Err(RecordError::unfit(of.name(), "", format!("has {size} bytes; a record has at most {LARGEST}")));
        }
        let by = writing.session.principal.name.to_string();
        Ok(Change { id: entity.id, proposed, replaces, version, record, by, at: now })
    }

    pub(super) async fn write(&self, writing: &Writing<'_>, changes: Vec<Change>) -> Result<Vec<Written>, RecordError> {
        let (session, of) = (writing.session, writing.of);
        self.source(of).write(self.set(session, of), changes).await
    }
}

/// What the author's part of the record is from now on.
fn body(
    writing: &Writing<'_>,
    current: Option<&Value>,
    sent: Map<String, Value>,
    wish: Wish,
) -> Result<Map<String, Value>, RecordError> {
    let mut sent = Value::Object(sent);
    writing.rule.strip(&mut sent);
    let mut stored = current.and_then(Value::as_object).cloned().unwrap_or_default();
    writing.of.managed.iter().for_each(|name| drop(stored.shift_remove(*name)));
    let mut new = match wish {
        Wish::Save | Wish::Create => sent,
        Wish::Update => {
            let mut seen = Value::Object(stored.clone());
            writing.rule.strip(&mut seen);
            crate::registry::merge(&mut seen, sent);
            seen
        }
    };
    let Some(fields) = new.as_object_mut() else { return Ok(Map::new()) };
    writing.rule.keep_hidden(&stored, fields).map_err(|field| {
        let message = format!("`{field}` is hidden from you and stands in what you changed; leave that part as it is");
        RecordError::Refused(message)
    })?;
    Ok(std::mem::take(fields))
}

/// Whether a place of the record is another than it was, by the field that it is in.
fn differs(current: &Value, body: &Map<String, Value>, path: &str) -> bool {
    let field = path.split('/').nth(1).map(|name| name.replace("~1", "/").replace("~0", "~"));
    // The record as a whole is what somebody sent.
    field.is_none_or(|field| current.get(&field) != body.get(&field))
}

/// The record as it is shown, and stored.
fn assembled(
    writing: &Writing<'_>,
    id: Option<&str>,
    version: i64,
    body: Map<String, Value>,
    current: Option<&Value>,
    now: Timestamp,
) -> Value {
    let mut record = Map::new();
    record.extend(id.map(|id| ("id".to_owned(), json!(id))));
    record.extend(body);
    if writing.of.managed.contains(&"version") {
        record.insert("version".into(), json!(version));
    }
    if writing.of.definition.records.is_some() {
        return Value::Object(record);
    }
    let (who, realm) = (writing.session.principal.name.as_str(), writing.session.realm.name.as_str());
    let now = now.to_string();
    let before = |pointer: &str| current.and_then(|current| current.pointer(pointer)).cloned();
    record.insert(
        "auditInfo".into(),
        json!({
            "createdBy": before("/auditInfo/createdBy").unwrap_or_else(|| json!(who)),
            "createdAt": before("/auditInfo/createdAt").unwrap_or_else(|| json!(now)),
            "lastUpdatedBy": who,
            "lastUpdatedAt": now,
        }),
    );
    let domain = before("/dataDomain")
        .unwrap_or_else(|| json!({ "orgRefName": writing.org, "tenantId": realm, "ownerId": who, "dataSegment": 0 }));
    record.insert("dataDomain".into(), domain);
    Value::Object(record)
}

pub(super) fn version_of(record: &Value) -> i64 {
    record.get("version").and_then(Value::as_i64).unwrap_or_default()
}

/// Ids of 24 hexadecimal digits that sort by when they were made: milliseconds, a count, and what tells servers apart.
#[derive(Debug)]
pub(crate) struct Ids {
    server: u32,
    count: AtomicU32,
}

impl Default for Ids {
    fn default() -> Self {
        Self { server: rand::random::<u32>() >> 8, count: AtomicU32::new(0) }
    }
}

impl Ids {
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
    fn ids_have_24_digits_and_sort_by_time() {
        let ids = Ids::default();
        let made: Vec<String> =
            (0..1000).map(|n| ids.next(Timestamp::from_micros(1_790_000_000_000_000 + n / 3))).collect();
        assert!(made.is_sorted() && made.iter().all(|id| id.len() == 24 && checked_id(id).as_ref().ok() == Some(id)));
    }

    #[test]
    fn ids_of_others_are_words() {
        for good in ["ord-1001", "a", "9.b_c@d", "507F1F77BCF86CD799439011"] {
            assert!(checked_id(good).is_ok(), "{good}");
        }
        assert_eq!(checked_id("507F1F77BCF86CD799439011").unwrap(), "507f1f77bcf86cd799439011");
        for bad in ["", "-a", "a b", "a'b", "ä", "a\0", "a\"", "a/b", &"x".repeat(129)] {
            assert!(checked_id(bad).is_err(), "{bad:?}");
        }
    }
}
