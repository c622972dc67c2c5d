//! Tests of the fork state: whether a run can be forked after an entry.

use proptest::prelude::*;
use toolwright_machine::AgentRun;
use toolwright_machine::agent::{ApprovalOutcome, Effect, ForkState};
use toolwright_machine::journal::Replayer;
use toolwright_types::{CallId, Timestamp};

use crate::script::{ScriptedDriver, scripts};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fork_state_after_each_entry_matches_the_state_of_the_run(script in scripts()) {
        let (driver, _) = ScriptedDriver::new(&script, false).run_to_end();
        let mut entries = driver.journal.into_iter();
        let mut replayer = Replayer::new(entries.next().unwrap(), None).unwrap();
        loop {
            let (run, state) = (replayer.run(), ForkState::of(replayer.run()));
            prop_assert_eq!(state.to_string().parse(), Ok(state), "the stored text is read back");
            let long_ago = Timestamp::from_micros(0);
            let expected = match state {
                ForkState::NoModel => return Err(TestCaseError::fail("a script has no predefined calls")),
                ForkState::Ended => run.ending().is_some(),
                ForkState::ChildSuspended => !run.suspended_children().is_empty(),
                ForkState::WriteInProgress => has_write_in_doubt(run),
                ForkState::ApprovedCall => has_approved_call(run) && !has_write_in_doubt(run),
                ForkState::Open { .. } => {
                    run.ending().is_none() && !has_write_in_doubt(run) && !has_approved_call(run)
                        && run.suspended_children().is_empty() && state.obstacle(long_ago).is_none()
                }
            };
            prop_assert!(expected, "{state}");
            match entries.next() {
                Some(entry) => replayer.apply(entry).unwrap(),
                None => break,
            }
        }
    }
}

/// Whether an open effect repeats or verifies a call with an intent.
fn has_write_in_doubt(run: &AgentRun) -> bool {
    run.pending().iter().any(|effect| match effect {
        Effect::RunCall(call) => call.repeated,
        Effect::VerifyCall { .. } => true,
        _ => false,
    })
}

/// Whether a call that a person approved has no envelope.
fn has_approved_call(run: &AgentRun) -> bool {
    let ended: Vec<&CallId> = run.envelopes_after(0).map(|envelope| &envelope.call_id).collect();
    let open = |id: &CallId| run.prepared_calls(0).any(|(_, call)| call == id) && !ended.contains(&id);
    run.decisions().iter().any(|record| match &record.outcome {
        ApprovalOutcome::Approved => open(&record.call_id),
        ApprovalOutcome::Edited(call) => open(call),
        ApprovalOutcome::Denied | ApprovalOutcome::Expired => false,
    })
}
