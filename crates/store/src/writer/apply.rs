//! Carries a plan out.

use toolwright_types::{RunId, Timestamp};

use super::plan::{Plan, Talk};
use crate::conversations::write as conversations;
use crate::db::{Tx, Unavailable};
use crate::runs::{ServerId, checkpoints, parts, servers, steps, write as runs};

/// Writes everything of the plan, or fails; then nothing of the transaction must be kept.
pub(super) async fn apply(tx: &mut Tx, plan: &Plan<'_>, server: &ServerId, now: Timestamp) -> Result<(), Unavailable> {
    for (realm, conversation) in &plan.conversations {
        conversations::open(tx, *realm, conversation).await?;
    }
    for talk in &plan.talk {
        match talk {
            Talk::Said(said) => conversations::add_turns(tx, *said).await?,
            Talk::Summary(summary) => conversations::summarise(tx, *summary).await?,
        }
    }
    parts::keep(tx, &plan.parts, now).await?;
    runs::insert_runs(tx, &plan.runs).await?;
    runs::insert_told(tx, &plan.told).await?;
    servers::still_drives(tx, server, &plan.continued()).await?;
    runs::append(tx, &plan.entries).await?;
    runs::settle(tx, &plan.states).await?;
    // A run that began in this very plan has waited for nothing before.
    let resettled: Vec<RunId> = plan.states.iter().map(|settled| settled.run).collect();
    runs::delete_waits(tx, &resettled).await?;
    runs::insert_waits(tx, &plan.waits).await?;
    checkpoints::put(tx, &plan.checkpoints).await?;
    checkpoints::remove(tx, &plan.ended).await?;
    steps::answer(tx, &plan.answers).await?;
    steps::clear(tx, &plan.cleared).await
}
