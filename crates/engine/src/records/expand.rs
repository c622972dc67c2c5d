//! `expand(…)`: related records put in where their ids are.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use toolwright_query::{Expansion, Filter, Query, Sort};
use toolwright_store::{RecordPage, Selection};

use super::asking::check_field;
use super::compiled::CompiledRelation;
use super::edges::collect;
use super::error::{Part, RecordError};
use super::rules::{RecordAction, RecordRule};
use super::{CompiledType, Records};
use crate::access::Session;

/// Relations in a row. A path is followed once, so circles of relations end with it.
const DEEPEST: usize = 4;
/// Related records of one step of one page.
const MOST_RELATED: usize = 1000;

/// What one step of an expansion needs beside the records.
struct Step<'a> {
    session: &'a Session,
    /// Only on the last step.
    filter: Option<&'a Query>,
    variables: &'a Map<String, Value>,
}

impl Records {
    /// Puts in what the query asks for. The records are whole, and stripped already.
    pub(super) async fn expand(
        &self,
        session: &Session,
        of: &CompiledType,
        expansions: &[Expansion],
        variables: &Map<String, Value>,
        records: &mut [Value],
    ) -> Result<(), RecordError> {
        for expansion in expansions {
            let path = expansion.path.replace("[*]", "");
            let step = Step { session, filter: expansion.filter.as_ref(), variables };
            self.follow(&step, of, &path, DEEPEST, records).await?;
        }
        Ok(())
    }

    /// Whether an expansion could be made, without making it.
    pub(super) async fn check_expansion(
        &self,
        session: &Session,
        of: &CompiledType,
        expansion: &Expansion,
    ) -> Result<(), RecordError> {
        let path = expansion.path.replace("[*]", "");
        let (relation, mut rest) = first_relation(of, &path)?;
        let mut target = self.related_type(session, relation).await?;
        let mut steps = 1;
        while let (Some(path), Some(from)) = (rest, &target) {
            if steps == DEEPEST {
                return Err(too_deep(path));
            }
            let (relation, further) = first_relation(from, path)?;
            target = self.related_type(session, relation).await?;
            (rest, steps) = (further, steps + 1);
        }
        if let (Some(target), Some(query)) = (&target, &expansion.filter) {
            let rule = self.0.rules.rule(session, target, RecordAction::Read).await?;
            self.check_filter(session, target, &rule, query).await?;
        }
        Ok(())
    }

    /// Whether the fields that choose among related records can be asked about.
    async fn check_filter(
        &self,
        session: &Session,
        target: &CompiledType,
        rule: &RecordRule,
        query: &Query,
    ) -> Result<(), RecordError> {
        let asked = query.asked().fields;
        asked.iter().try_for_each(|field| check_field(target, rule, field, Part::Query))?;
        self.check_known(session, target, &asked, Part::Query).await
    }

    /// One relation of the path, then the rest of it in what was found.
    fn follow<'a>(
        &'a self,
        step: &'a Step<'a>,
        of: &'a CompiledType,
        path: &'a str,
        deeper: usize,
        records: &'a mut [Value],
    ) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(async move {
            let (relation, rest) = first_relation(of, path)?;
            if deeper == 0 {
                return Err(too_deep(path));
            }
            let mut ids = Vec::new();
            records.iter().for_each(|record| collect(record, &relation.field, &mut ids));
            ids.sort_unstable();
            ids.dedup();
            if ids.len() > MOST_RELATED {
                let message =
                    format!("expand({path}) leads to {} records; ask for fewer than {MOST_RELATED} at once", ids.len());
                return Err(RecordError::asked(Part::Query, message));
            }
            let Some(target) = self.related_type(step.session, relation).await? else {
                return Ok(());
            };
            let mut related = self.related(step, &target, ids, rest.is_none()).await?;
            if let Some(rest) = rest {
                self.follow(step, &target, rest, deeper - 1, &mut related).await?;
            }
            let by_id: HashMap<String, Value> = related
                .into_iter()
                .filter_map(|record| Some((record.get("id")?.as_str()?.to_owned(), record)))
                .collect();
            let field: Vec<&str> = relation.field.segments().collect();
            records.iter_mut().for_each(|record| put(record, &field, relation, &by_id));
            Ok(())
        })
    }

    /// The type at the other end; none if it was never defined.
    async fn related_type(
        &self,
        session: &Session,
        relation: &CompiledRelation,
    ) -> Result<Option<Arc<CompiledType>>, RecordError> {
        let Some(target) = self.0.catalog.entity_type(&session.realm, &relation.target).await? else {
            return Ok(None);
        };
        self.require(session, &target, RecordAction::Read)?;
        Ok(Some(target))
    }

    async fn related(
        &self,
        step: &Step<'_>,
        target: &CompiledType,
        ids: Vec<String>,
        last: bool,
    ) -> Result<Vec<Value>, RecordError> {
        let rule = self.0.rules.rule(step.session, target, RecordAction::Read).await?;
        let stored = Filter::all([&rule.filter(), &Filter::ids(ids)]);
        let mut selection = Selection::of(stored, target.searchable.clone());
        if let (true, Some(query)) = (last, step.filter) {
            self.check_filter(step.session, target, &rule, query).await?;
            if query.asked().whole {
                selection.unseen = rule.unseen();
            }
            selection.seen = self.bound(step.session, target, &rule, query, step.variables).await?;
        }
        let limit = u32::try_from(MOST_RELATED).unwrap_or(u32::MAX);
        let page = RecordPage { sort: Sort::default(), after: None, skip: 0, limit };
        let mut found = self.source(target).find(self.set(step.session, target), &selection, &page).await?;
        found.iter_mut().for_each(|record| rule.strip(record));
        Ok(found)
    }
}

fn too_deep(path: &str) -> RecordError {
    RecordError::asked(Part::Query, format!("expand({path}) goes through more than {DEEPEST} relations"))
}

/// The relation that a path begins with, by its name or by its field, and what follows.
fn first_relation<'t, 'p>(
    of: &'t CompiledType,
    path: &'p str,
) -> Result<(&'t CompiledRelation, Option<&'p str>), RecordError> {
    let rest_after = |start: &str| match path.strip_prefix(start)? {
        "" => Some(None),
        rest => rest.strip_prefix('.').map(Some),
    };
    let beside = |relation: &CompiledRelation| match relation.field.as_str().rsplit_once('.') {
        Some((holder, _)) => format!("{holder}.{}", relation.name),
        None => relation.name.clone(),
    };
    let found = of.relations.iter().find_map(|relation| {
        let ways = [relation.name.as_str(), relation.field.as_str(), &beside(relation)].map(rest_after);
        ways.into_iter().flatten().next().map(|rest| (relation, rest))
    });
    found.ok_or_else(|| {
        let known: Vec<&str> = of.relations.iter().map(|relation| relation.name.as_str()).collect();
        let hint = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
        RecordError::asked(Part::Query, format!("expand({path}) names no relation of type `{}`; {hint}", of.name()))
    })
}

/// Puts related records beside the field that holds their ids, under the name of the relation.
fn put(value: &mut Value, field: &[&str], relation: &CompiledRelation, by_id: &HashMap<String, Value>) {
    match (value, field) {
        (Value::Array(items), _) => items.iter_mut().for_each(|item| put(item, field, relation, by_id)),
        (Value::Object(fields), [last]) => {
            if let Some(held) = fields.get(*last) {
                let related = related_to(held, relation.many, by_id);
                fields.insert(relation.name.clone(), related);
            }
        }
        (Value::Object(fields), [first, rest @ ..]) => {
            if let Some(inner) = fields.get_mut(*first) {
                put(inner, rest, relation, by_id);
            }
        }
        _ => {}
    }
}

/// The records that an id or a list of ids stands for; null where there is none.
fn related_to(held: &Value, many: bool, by_id: &HashMap<String, Value>) -> Value {
    let one = |value: &Value| {
        let id = value.as_str().or_else(|| value.get("id").and_then(Value::as_str))?;
        by_id.get(id).cloned()
    };
    match held {
        Value::Array(items) => items.iter().filter_map(one).collect(),
        single if many => one(single).into_iter().collect(),
        single => one(single).unwrap_or(Value::Null),
    }
}
