//! `hasEdge(…)`: relations of types, as filters.

use serde_json::Value;
use toolwright_query::{Direction, Edge, Edges, Field, Filter, Sort};
use toolwright_store::{RecordPage, Selection};

use super::error::{Part, RecordError};
use super::rules::{RecordAction, RecordRule};
use super::save::same_case;
use super::{CompiledType, Records};
use crate::access::Session;

/// Records of one name that a relation may lead to, and ids that one record may hold.
const MOST_ENDS: u32 = 1000;

impl Records {
    /// What the records are known by that have each of these relations.
    pub(super) async fn edges(
        &self,
        session: &Session,
        of: &CompiledType,
        rule: &RecordRule,
        wanted: Vec<Edge>,
    ) -> Result<Edges, RecordError> {
        let mut found = Edges::new();
        for edge in wanted {
            let filter = match edge.direction {
                Direction::Outgoing => self.outgoing(session, of, rule, &edge).await?,
                Direction::Incoming => self.incoming(session, of, &edge).await?,
            };
            found.insert(edge, filter);
        }
        Ok(found)
    }

    /// Those whose field holds the id of the other, whether there is such a record or not: the edge is what the field holds, which
    /// the asker may read. Only the record's name is looked up, as far as the asker may.
    async fn outgoing(
        &self,
        session: &Session,
        of: &CompiledType,
        rule: &RecordRule,
        edge: &Edge,
    ) -> Result<Filter, RecordError> {
        let relation = of.relation(&edge.predicate).ok_or_else(|| unknown(of, &edge.predicate))?;
        if rule.hides(relation.field.as_str()) {
            let message = format!("relation `{}` of type `{}` is not yours to ask about", relation.name, of.name());
            return Err(RecordError::asked(Part::Query, message));
        }
        let mut ids = vec![edge.other.clone(), same_case(&edge.other)];
        if let Some(target) = self.0.catalog.entity_type(&session.realm, &relation.target).await? {
            ids.extend(ids_of(&self.named(session, &target, &edge.other).await?));
        }
        Ok(Filter::refers(relation.field.clone(), ids))
    }

    /// Those whose ids the other holds.
    async fn incoming(&self, session: &Session, of: &CompiledType, edge: &Edge) -> Result<Filter, RecordError> {
        let mut ids = Vec::new();
        let mut known = false;
        for source in self.0.catalog.entity_types(&session.realm).await?.iter() {
            let leads_here = |target: &str| target.eq_ignore_ascii_case(of.name());
            let relations = source.relations.iter().filter(|relation| relation.name == edge.predicate);
            for relation in relations.filter(|relation| leads_here(&relation.target)) {
                known = true;
                if !self.may_read(session, source) {
                    continue;
                }
                let rule = self.0.rules.rule(session, source, RecordAction::Read).await?;
                if !rule.hides(relation.field.as_str()) {
                    let others = self.named(session, source, &edge.other).await?;
                    others.iter().for_each(|other| collect(other, &relation.field, &mut ids));
                }
            }
        }
        if known { Ok(Filter::ids(ids)) } else { Err(unknown(of, &edge.predicate)) }
    }

    /// The records of that id, or of that `refName`, as far as the session sees them.
    async fn named(&self, session: &Session, of: &CompiledType, name: &str) -> Result<Vec<Value>, RecordError> {
        if !self.may_read(session, of) {
            return Ok(Vec::new());
        }
        let rule = self.0.rules.rule(session, of, RecordAction::Read).await?;
        let mut ways = vec![Filter::ids([name.to_owned(), same_case(name)])];
        if let Ok(field) = Field::parse("refName")
            && !rule.hides("refName")
            && of.may_have(&field)
        {
            ways.push(Filter::holds(field, [name.to_owned()]));
        }
        let filter = Filter::all([&rule.filter(), &Filter::any(&ways)]);
        let page = RecordPage { sort: Sort::default(), after: None, skip: 0, limit: MOST_ENDS };
        let selection = Selection::of(filter, of.searchable.clone());
        self.source(of).find(self.set(session, of), &selection, &page).await
    }
}

/// The texts at a path, through lists.
pub(super) fn collect(value: &Value, field: &Field, found: &mut Vec<String>) {
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

fn unknown(of: &CompiledType, relation: &str) -> RecordError {
    let known: Vec<&str> = of.relations.iter().map(|relation| relation.name.as_str()).collect();
    let hint = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
    RecordError::asked(Part::Query, format!("type `{}` has no relation `{relation}`; {hint}", of.name()))
}
