//! Applies the traffic split of an agent, which names a library and a share of the agent's runs. In a live split, the
//! runs in the share use the library. In a shadow split, each run in the share gets a shadow run that uses the library.
//!
//! The hash of the run id decides whether a run is in the share, so the selection needs no state. The first entry of a
//! run records the decision, so the decision never changes.

use std::sync::Arc;

use toolwright_machine::journal::RunStart;
use toolwright_types::{RunId, SplitMode, TrafficSplit, Trial, TrialKind};

use super::binding::BindingContext;
use super::spec::{RunDraft, RunOrigin};
use super::{Agents, BindingError, CompiledAgent, Toolset};
use toolwright_catalog::Unavailable;
use toolwright_runs::RunLaunch;

impl Agents {
    /// Decides whether a new run uses the library of its agent's live split, and records the decision in the first
    /// entry of the run.
    pub(super) async fn choose_arm(
        &self,
        agent: &CompiledAgent,
        origin: &RunOrigin,
        tools: &Toolset,
        start: &mut RunStart,
    ) {
        let Some(TrafficSplit { library, share, mode: SplitMode::Live }) = &agent.document.body.split else { return };
        if origin.parent.as_ref().is_some_and(|parent| parent.start.spec.policy.capture_writes) {
            // A parent run that captures its writes is already part of a trial. Its child runs are not split again.
            return;
        }
        let mut arm = Trial::DEFAULT_ARM;
        if in_share(origin.run, *share) {
            let context = BindingContext { agent, tools, realm: &origin.realm, principal: &origin.principal };
            match self.bind_named(&context, library).await {
                Ok(bound) => (arm, start.bindings) = (library, bound),
                // The run starts without the library, because a library that cannot be used must not prevent the run.
                Err(error) => start.warnings.push(unusable(library, &error)),
            }
        }
        start.trial = Some(Trial::new(TrialKind::Split, arm));
    }

    /// Returns the shadow run of a new run, if its agent has a shadow split.
    pub(super) async fn shadow_of(&self, agent: &CompiledAgent, draft: &mut RunDraft) -> Option<ShadowRun> {
        let Some(TrafficSplit { library, share, mode: SplitMode::Shadow }) = &agent.document.body.split else {
            return None;
        };
        let RunDraft { origin, executor, start, .. } = draft;
        if !in_share(origin.run, *share) {
            return None;
        }
        let context =
            BindingContext { agent, tools: &executor.tools, realm: &origin.realm, principal: &origin.principal };
        let bound = match self.bind_named(&context, library).await {
            Ok(bound) => bound,
            Err(error) => {
                start.warnings.push(unusable(library, &error));
                return None;
            }
        };
        let mut shadow = Box::new(start.clone());
        shadow.spec.run = shadow_run_id(origin.run);
        shadow.spec.policy.capture_writes = true;
        // A shadow run has no conversation, because its replies are not shown to the user.
        (shadow.conversation, shadow.bindings) = (None, bound);
        shadow.trial = Some(Trial { of: Some(origin.run), ..Trial::new(TrialKind::Shadow, library) });
        Some(ShadowRun {
            start: shadow,
            origin: RunOrigin {
                run: shadow_run_id(origin.run),
                realm: Arc::clone(&origin.realm),
                home: Arc::clone(&origin.home),
                owner: origin.owner.clone(),
                principal: Arc::clone(&origin.principal),
                parent: None,
                conversation: None,
                session: origin.session.clone(),
                hops: origin.hops,
                correlation: origin.correlation.clone(),
            },
        })
    }

    /// Starts a shadow run, unless the maximum number of runs is reached. Failures do not affect the original run.
    pub(super) async fn start_shadow_run(&self, shadow: ShadowRun) {
        let ShadowRun { start, origin } = shadow;
        if self.check_capacity().is_err() {
            tracing::info!(run = %start.spec.run, "shadow run skipped: too many active runs");
            return;
        }
        let run = start.spec.run;
        let started = async {
            let executor = self.0.runs.build_executor(&start, origin.scope()).await?;
            let plan = RunLaunch {
                executor: Arc::new(executor),
                home: origin.home,
                owner: origin.owner.0,
                principal: origin.principal.id,
                changes: Vec::new(),
                start: *start,
                prefix: Vec::new(),
            };
            self.0.runs.launch(plan).await.map_err(Unavailable::from)
        };
        if let Err(error) = started.await {
            tracing::warn!(%run, error = &error as &dyn std::error::Error, "shadow run could not be started");
        }
    }
}

/// A run that repeats another run with a different library. It captures its writes and does not execute them.
pub(super) struct ShadowRun {
    start: Box<RunStart>,
    origin: RunOrigin,
}

/// Returns whether a run is in the share that a split selects. `share` is between 0 and 1.
fn in_share(run: RunId, share: f64) -> bool {
    let digest = toolwright_types::json::digest(&serde_json::json!([run.to_string(), "split"]));
    // 48 bits of the hash, as a fraction between 0 and 1.
    let bits = digest.iter().take(6).fold(0u64, |bits, byte| (bits << 8) | u64::from(*byte));
    #[expect(clippy::cast_precision_loss, reason = "48 bits fit")]
    let fraction = bits as f64 / (1u64 << 48) as f64;
    fraction < share
}

/// Derives the id of a shadow run from the id of its original run.
fn shadow_run_id(run: RunId) -> RunId {
    let digest = toolwright_types::json::digest(&serde_json::json!([run.to_string(), "shadow"]));
    RunId::from_bits(digest.iter().take(16).fold(0, |bits, byte| (bits << 8) | u128::from(*byte)))
}

fn unusable(library: &str, error: &BindingError) -> String {
    format!("library `{library}` was not used: {error}")
}

#[cfg(test)]
mod tests {
    use toolwright_types::DocumentId as _;

    use super::*;

    #[test]
    fn larger_split_share_includes_the_runs_of_a_smaller_share() {
        let runs: Vec<RunId> = (0..10_000u128).map(|n| RunId::from_bits(n << 64)).collect();
        let count = |share: f64| runs.iter().filter(|run| in_share(**run, share)).count();
        assert_eq!((count(0.0), count(1.0)), (0, 10_000));
        assert!((900..=1100).contains(&count(0.1)), "{}", count(0.1));
        assert!(
            runs.iter().all(|run| !in_share(*run, 0.2) || in_share(*run, 0.5)),
            "a run left the share when it grew"
        );
    }

    #[test]
    fn shadow_run_id_is_deterministic_and_differs_from_the_run_id() {
        let run = RunId::generate();
        assert_eq!(shadow_run_id(run), shadow_run_id(run));
        assert_ne!(shadow_run_id(run), run);
    }
}
