//! Translates `hasEdge(…)` of the query language to filters. An edge is a relation from one record to another.

use serde_json::Value;
use toolwright_query::{Direction, Edge, EdgeFilters, Field, Filter, Sort};
use toolwright_store::{RecordPage, Selection};

use super::error::{RecordError, RequestPart};
use super::rules::{RecordAction, RecordRule};
use super::save::normalize_id;
use super::{CompiledType, Records};
use toolwright_catalog::Session;

/// The maximum number of records that the id or `refName` in `hasEdge(…)` selects. Further matches are ignored.
const MAX_EDGE_RECORDS: u32 = 1000;

impl Records {
    /// Returns, for each edge in a query, the filter that matches the records with that edge.
    pub(super) async fn resolve_edges(
        &self,
        session: &Session,
        entity_type: &CompiledType,
        rule: &RecordRule,
        edges: Vec<Edge>,
    ) -> Result<EdgeFilters, RecordError> {
        let mut found = EdgeFilters::new();
        for edge in edges {
            let filter = match edge.direction {
                Direction::Outgoing => self.outgoing(session, entity_type, rule, &edge).await?,
                Direction::Incoming => self.incoming(session, entity_type, &edge).await?,
            };
            found.insert(edge, filter);
        }
        Ok(found)
    }

    /// Resolves an edge that leads from the wanted records to the record named in `hasEdge(…)`. Returns a filter for
    /// the records whose relation field contains the id of the named record. The named record need not exist or be
    /// visible, because the caller has the permission to read the relation field. A `refName` is looked up with the
    /// caller's permissions.
    async fn outgoing(
        &self,
        session: &Session,
        entity_type: &CompiledType,
        rule: &RecordRule,
        edge: &Edge,
    ) -> Result<Filter, RecordError> {
        let relation =
            entity_type.relation(&edge.relation).ok_or_else(|| unknown_relation(entity_type, &edge.relation))?;
        if rule.hides(relation.field.as_str()) {
            let message = format!(
                "relation `{}` of type `{}` is hidden from you and cannot be queried",
                relation.name,
                entity_type.name()
            );
            return Err(RecordError::invalid_request(RequestPart::Query, message));
        }
        let mut ids = vec![edge.other.clone(), normalize_id(&edge.other)];
        if let Some(target) = self.inner.catalog.entity_type(&session.realm, &relation.target).await? {
            ids.extend(ids_of(&self.find_by_id_or_name(session, &target, &edge.other).await?));
        }
        Ok(Filter::references(relation.field.clone(), ids))
    }

    /// Resolves an edge that leads from the record named in `hasEdge(…)` to the wanted records. Returns a filter for
    /// the records whose ids are in the relation field of the named record.
    async fn incoming(
        &self,
        session: &Session,
        entity_type: &CompiledType,
        edge: &Edge,
    ) -> Result<Filter, RecordError> {
        let mut ids = Vec::new();
        let mut known = false;
        for source in self.inner.catalog.entity_types(&session.realm).await?.iter() {
            let targets_type = |target: &str| target.eq_ignore_ascii_case(entity_type.name());
            let relations = source.relations.iter().filter(|relation| relation.name == edge.relation);
            for relation in relations.filter(|relation| targets_type(&relation.target)) {
                known = true;
                if !self.may_read(session, source) {
                    continue;
                }
                let rule = self.inner.rules.rule(session, source, RecordAction::Read).await?;
                if !rule.hides(relation.field.as_str()) {
                    let others = self.find_by_id_or_name(session, source, &edge.other).await?;
                    others.iter().for_each(|other| collect_ids(other, &relation.field, &mut ids));
                }
            }
        }
        if known { Ok(Filter::ids(ids)) } else { Err(unknown_relation(entity_type, &edge.relation)) }
    }

    /// Returns the records with this id or `refName` that the session may see.
    async fn find_by_id_or_name(
        &self,
        session: &Session,
        entity_type: &CompiledType,
        name: &str,
    ) -> Result<Vec<Value>, RecordError> {
        if !self.may_read(session, entity_type) {
            return Ok(Vec::new());
        }
        let rule = self.inner.rules.rule(session, entity_type, RecordAction::Read).await?;
        let mut alternatives = vec![Filter::ids([name.to_owned(), normalize_id(name)])];
        if let Ok(field) = Field::parse("refName")
            && !rule.hides("refName")
            && entity_type.allows_field(&field)
        {
            alternatives.push(Filter::text_in(field, [name.to_owned()]));
        }
        let filter = Filter::all([&rule.filter(), &Filter::any(&alternatives)]);
        let page = RecordPage { sort: Sort::default(), after: None, skip: 0, limit: MAX_EDGE_RECORDS };
        let selection = Selection::of(filter, entity_type.searchable.clone());
        self.source(entity_type).find(self.record_set(session, entity_type), &selection, &page).await
    }
}

/// Collects the ids at a field path. Descends into arrays.
pub(super) fn collect_ids(value: &Value, field: &Field, found: &mut Vec<String>) {
    fn walk(value: &Value, path: &[&str], found: &mut Vec<String>) {
        match (value, path) {
            (Value::Array(items), _) => items.iter().for_each(|item| walk(item, path, found)),
            (Value::String(text), []) => found.push(text.clone()),
            // A reference may also be an object with an id.
            (Value::Object(fields), []) => found.extend(fields.get("id").and_then(Value::as_str).map(str::to_owned)),
            (Value::Object(fields), [first, rest @ ..]) => {
                if let Some(inner) = fields.get(*first) {
                    walk(inner, rest, found);
                }
            }
            _ => {}
        }
    }
    walk(value, &field.segments().collect::<Vec<_>>(), found);
}

fn ids_of(records: &[Value]) -> Vec<String> {
    records.iter().filter_map(|record| record.get("id").and_then(Value::as_str)).map(str::to_owned).collect()
}

fn unknown_relation(entity_type: &CompiledType, relation: &str) -> RecordError {
    let known: Vec<&str> = entity_type.relations.iter().map(|relation| relation.name.as_str()).collect();
    let hint = if known.is_empty() { "it has no relations".to_owned() } else { format!("it has {}", known.join(", ")) };
    RecordError::invalid_request(
        RequestPart::Query,
        format!("type `{}` has no relation `{relation}`; {hint}", entity_type.name()),
    )
}
