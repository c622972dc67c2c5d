//! Executes `expand(…)` of the query language: inserts related records next to the fields that contain their ids.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use toolwright_query::{Expansion, Filter, Query, Sort};
use toolwright_store::{RecordPage, Selection};

use super::error::{RecordError, RequestPart};
use super::query::check_field;
use super::relations::collect_ids;
use super::rules::{RecordAction, RecordRule};
use super::{CompiledType, Records};
use toolwright_catalog::Session;
use toolwright_catalog::entity_type::CompiledRelation;

/// The maximum number of relations in one path. Cyclic relations cause no endless loop, because a query contains the
/// complete path.
const MAX_DEPTH: usize = 4;
/// The maximum number of related records that one relation adds to a page.
const MAX_RELATED: usize = 1000;

/// The session, the filter and the variables of an expansion.
struct ExpansionContext<'a> {
    session: &'a Session,
    /// The filter on the records at the end of the path.
    filter: Option<&'a Query>,
    variables: &'a Map<String, Value>,
}

impl Records {
    /// Inserts the related records that the query requests. Call it before the projection, because the projection may
    /// remove the ids.
    pub(super) async fn expand(
        &self,
        session: &Session,
        entity_type: &CompiledType,
        expansions: &[Expansion],
        variables: &Map<String, Value>,
        records: &mut [Value],
    ) -> Result<(), RecordError> {
        for expansion in expansions {
            let path = expansion.path.replace("[*]", "");
            let context = ExpansionContext { session, filter: expansion.filter.as_ref(), variables };
            self.expand_path(&context, entity_type, &path, MAX_DEPTH, records).await?;
        }
        Ok(())
    }

    /// Checks an expansion without executing it.
    pub(super) async fn check_expansion(
        &self,
        session: &Session,
        entity_type: &CompiledType,
        expansion: &Expansion,
    ) -> Result<(), RecordError> {
        let path = expansion.path.replace("[*]", "");
        let (relation, mut rest) = first_relation(entity_type, &path)?;
        let mut target = self.related_type(session, relation).await?;
        let mut depth = 1;
        while let (Some(path), Some(from)) = (rest, &target) {
            if depth == MAX_DEPTH {
                return Err(too_deep(path));
            }
            let (relation, further) = first_relation(from, path)?;
            target = self.related_type(session, relation).await?;
            (rest, depth) = (further, depth + 1);
        }
        if let (Some(target), Some(query)) = (&target, &expansion.filter) {
            let rule = self.inner.rules.rule(session, target, RecordAction::Read).await?;
            self.check_filter(session, target, &rule, query).await?;
        }
        Ok(())
    }

    /// Checks that the caller may use the fields of a filter on related records.
    async fn check_filter(
        &self,
        session: &Session,
        target: &CompiledType,
        rule: &RecordRule,
        query: &Query,
    ) -> Result<(), RecordError> {
        let asked = query.dependencies().fields;
        asked.iter().try_for_each(|field| check_field(target, rule, field, RequestPart::Query))?;
        self.check_open_fields(session, target, &asked, RequestPart::Query).await
    }

    /// Expands the first relation of the path, and then expands the remaining path in the related records.
    fn expand_path<'a>(
        &'a self,
        context: &'a ExpansionContext<'a>,
        entity_type: &'a CompiledType,
        path: &'a str,
        remaining_depth: usize,
        records: &'a mut [Value],
    ) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(async move {
            let (relation, rest) = first_relation(entity_type, path)?;
            if remaining_depth == 0 {
                return Err(too_deep(path));
            }
            let mut ids = Vec::new();
            records.iter().for_each(|record| collect_ids(record, &relation.field, &mut ids));
            ids.sort_unstable();
            ids.dedup();
            if ids.len() > MAX_RELATED {
                let message = format!(
                    "expand({path}) must add at most {MAX_RELATED} records, got {}; request smaller pages",
                    ids.len()
                );
                return Err(RecordError::invalid_request(RequestPart::Query, message));
            }
            let Some(target) = self.related_type(context.session, relation).await? else {
                return Ok(());
            };
            let mut related = self.fetch_related(context, &target, ids, rest.is_none()).await?;
            if let Some(rest) = rest {
                self.expand_path(context, &target, rest, remaining_depth - 1, &mut related).await?;
            }
            let by_id: HashMap<String, Value> = related
                .into_iter()
                .filter_map(|record| Some((record.get("id")?.as_str()?.to_owned(), record)))
                .collect();
            let field: Vec<&str> = relation.field.segments().collect();
            records.iter_mut().for_each(|record| insert_related(record, &field, relation, &by_id));
            Ok(())
        })
    }

    /// Returns the target type of a relation; `None` if that type does not exist.
    async fn related_type(
        &self,
        session: &Session,
        relation: &CompiledRelation,
    ) -> Result<Option<Arc<CompiledType>>, RecordError> {
        let Some(target) = self.inner.catalog.entity_type(&session.realm, &relation.target).await? else {
            return Ok(None);
        };
        self.require_permission(session, &target, RecordAction::Read)?;
        Ok(Some(target))
    }

    async fn fetch_related(
        &self,
        context: &ExpansionContext<'_>,
        target: &CompiledType,
        ids: Vec<String>,
        last: bool,
    ) -> Result<Vec<Value>, RecordError> {
        let rule = self.inner.rules.rule(context.session, target, RecordAction::Read).await?;
        let stored = Filter::all([&rule.filter(), &Filter::ids(ids)]);
        let mut selection = Selection::of(stored, target.searchable.clone());
        if let (true, Some(query)) = (last, context.filter) {
            self.check_filter(context.session, target, &rule, query).await?;
            if query.dependencies().full_text {
                selection.hidden = rule.hidden_top_level();
            }
            selection.visible = self.bind_query(context.session, target, &rule, query, context.variables).await?;
        }
        let limit = u32::try_from(MAX_RELATED).unwrap_or(u32::MAX);
        let page = RecordPage { sort: Sort::default(), after: None, skip: 0, limit };
        let mut found = self.source(target).find(self.record_set(context.session, target), &selection, &page).await?;
        found.iter_mut().for_each(|record| rule.remove_hidden(record));
        Ok(found)
    }
}

fn too_deep(path: &str) -> RecordError {
    RecordError::invalid_request(
        RequestPart::Query,
        format!("expand({path}) must follow at most {MAX_DEPTH} relations"),
    )
}

/// Finds the relation at the start of a path, by its name or its field. Returns the relation and the remaining path.
fn first_relation<'t, 'p>(
    entity_type: &'t CompiledType,
    path: &'p str,
) -> Result<(&'t CompiledRelation, Option<&'p str>), RecordError> {
    let rest_after = |start: &str| match path.strip_prefix(start)? {
        "" => Some(None),
        rest => rest.strip_prefix('.').map(Some),
    };
    let qualified_name = |relation: &CompiledRelation| match relation.field.as_str().rsplit_once('.') {
        Some((holder, _)) => format!("{holder}.{}", relation.name),
        None => relation.name.clone(),
    };
    let found = entity_type.relations.iter().find_map(|relation| {
        let names = [relation.name.as_str(), relation.field.as_str(), &qualified_name(relation)].map(rest_after);
        names.into_iter().flatten().next().map(|rest| (relation, rest))
    });
    found.ok_or_else(|| {
        let known: Vec<&str> = entity_type.relations.iter().map(|relation| relation.name.as_str()).collect();
        let hint =
            if known.is_empty() { "it has no relations".to_owned() } else { format!("it has {}", known.join(", ")) };
        let message = format!("expand({path}): type `{}` has no such relation; {hint}", entity_type.name());
        RecordError::invalid_request(RequestPart::Query, message)
    })
}

/// Inserts related records next to the field that contains their ids. The new field has the name of the relation.
fn insert_related(value: &mut Value, field: &[&str], relation: &CompiledRelation, by_id: &HashMap<String, Value>) {
    match (value, field) {
        (Value::Array(items), _) => items.iter_mut().for_each(|item| insert_related(item, field, relation, by_id)),
        (Value::Object(fields), [last]) => {
            if let Some(held) = fields.get(*last) {
                let related = related_value(held, relation.many, by_id);
                fields.insert(relation.name.clone(), related);
            }
        }
        (Value::Object(fields), [first, rest @ ..]) => {
            if let Some(inner) = fields.get_mut(*first) {
                insert_related(inner, rest, relation, by_id);
            }
        }
        _ => {}
    }
}

/// Returns the record for an id, or a list of records for a list of ids. If `many` is set, the result is always a list.
/// A list omits missing records. A single missing record is null.
fn related_value(held: &Value, many: bool, by_id: &HashMap<String, Value>) -> Value {
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
