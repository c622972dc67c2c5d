//! A share of an agent's runs with other implementations: instead of its own, or in the shadow of a run.
//!
//! Which runs is decided by the hash of their ids, so that nobody has to remember it, and written at their beginnings, so
//! that it never changes.

use std::sync::Arc;

use toolwright_machine::journal::Began;
use toolwright_types::{RunId, Split, SplitMode, Trial, TrialKind};

use super::binding::Binder;
use super::spec::{Draft, Origin};
use super::{Agents, BindingError, CompiledAgent, Toolset};
use crate::Unavailable;
use crate::runs::NewRunPlan;

impl Agents {
    /// Gives a run that is about to begin its arm, if its agent has a split.
    pub(super) async fn choose_arm(&self, agent: &CompiledAgent, origin: &Origin, tools: &Toolset, began: &mut Began) {
        let Some(Split { library, share, mode: SplitMode::Live }) = &agent.document.body.split else { return };
        if origin.parent.as_ref().is_some_and(|whole| whole.began.spec.policy.captures) {
            // What is tried there is something else.
            return;
        }
        let mut arm = Trial::DEFAULT_ARM;
        if falls_within(origin.run, *share) {
            let binder = Binder { agent, tools, realm: &origin.realm, principal: &origin.principal };
            match self.bind_own(&binder, library).await {
                Ok(bound) => (arm, began.bound) = (library, bound),
                // A library that cannot be used must not keep an agent from its work.
                Err(error) => began.warnings.push(unusable(library, &error)),
            }
        }
        began.trial = Some(Trial::new(TrialKind::Split, arm));
    }

    /// The run beside a run that is about to begin, if its agent wants one in its shadow.
    pub(super) async fn shadow_of(&self, agent: &CompiledAgent, draft: &mut Draft) -> Option<Shadow> {
        let Some(Split { library, share, mode: SplitMode::Shadow }) = &agent.document.body.split else { return None };
        let Draft { origin, crew, began, .. } = draft;
        if !falls_within(origin.run, *share) {
            return None;
        }
        let binder = Binder { agent, tools: &crew.tools, realm: &origin.realm, principal: &origin.principal };
        let bound = match self.bind_own(&binder, library).await {
            Ok(bound) => bound,
            Err(error) => {
                began.warnings.push(unusable(library, &error));
                return None;
            }
        };
        let mut shadow = Box::new(began.clone());
        shadow.spec.run = derived(origin.run);
        shadow.spec.policy.captures = true;
        // What it says is said to nobody.
        (shadow.conversation, shadow.bound) = (None, bound);
        shadow.trial = Some(Trial { of: Some(origin.run), ..Trial::new(TrialKind::Shadow, library) });
        Some(Shadow {
            began: shadow,
            origin: Origin {
                run: derived(origin.run),
                realm: Arc::clone(&origin.realm),
                home: Arc::clone(&origin.home),
                owner: origin.owner.clone(),
                principal: Arc::clone(&origin.principal),
                parent: None,
                conversation: None,
                session: origin.session.clone(),
            },
        })
    }

    /// Begins a shadow, if there is room for it. Nobody who waits for the run it belongs to waits for this.
    pub(super) async fn cast(&self, shadow: Shadow) {
        let Shadow { began, origin } = shadow;
        if self.has_room().is_err() {
            tracing::info!(run = %began.spec.run, "no room for a shadow; it is left out");
            return;
        }
        let run = began.spec.run;
        let begun = async {
            let crew = self.0.runs.recruit(&began, origin.realm, Arc::clone(&origin.principal)).await?;
            let plan = NewRunPlan {
                crew: Arc::new(crew),
                home: origin.home,
                owner: origin.owner.0,
                principal: origin.principal.id,
                changes: Vec::new(),
                began: *began,
                prefix: Vec::new(),
            };
            self.0.runs.begin(plan).await.map_err(Unavailable::from)
        };
        if let Err(error) = begun.await {
            tracing::warn!(%run, error = &error as &dyn std::error::Error, "a shadow could not begin");
        }
    }
}

/// A run that begins in the shadow of another.
pub(super) struct Shadow {
    began: Box<Began>,
    origin: Origin,
}

/// Whether a run is one of this share of all.
fn falls_within(run: RunId, share: f64) -> bool {
    let digest = toolwright_types::json::digest(&serde_json::json!([run.to_string(), "split"]));
    // As many bits as a fraction holds.
    let bits = digest.iter().take(6).fold(0u64, |bits, byte| (bits << 8) | u64::from(*byte));
    #[expect(clippy::cast_precision_loss, reason = "48 bits fit")]
    let place = bits as f64 / (1u64 << 48) as f64;
    place < share
}

/// The id of a run's shadow: the same each time.
fn derived(run: RunId) -> RunId {
    let digest = toolwright_types::json::digest(&serde_json::json!([run.to_string(), "shadow"]));
    RunId::from_bits(digest.iter().take(16).fold(0, |bits, byte| (bits << 8) | u128::from(*byte)))
}

fn unusable(library: &str, error: &BindingError) -> String {
    format!("library `{library}` was not tried: {error}")
}

#[cfg(test)]
mod tests {
    use toolwright_types::DocumentId as _;

    use super::*;

    #[test]
    fn a_share_is_about_so_many_and_always_the_same() {
        let runs: Vec<RunId> = (0..10_000u128).map(|n| RunId::from_bits(n << 64)).collect();
        let count = |share: f64| runs.iter().filter(|run| falls_within(**run, share)).count();
        assert_eq!((count(0.0), count(1.0)), (0, 10_000));
        assert!((900..=1100).contains(&count(0.1)), "{}", count(0.1));
        assert!(
            runs.iter().all(|run| !falls_within(*run, 0.2) || falls_within(*run, 0.5)),
            "a larger share keeps the smaller"
        );
    }

    #[test]
    fn a_shadow_is_another_run_and_the_same_each_time() {
        let run = RunId::generate();
        assert_eq!(derived(run), derived(run));
        assert_ne!(derived(run), run);
    }
}
