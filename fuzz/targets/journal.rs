//! Restores arbitrary text as a saved run, and replays it as journal entries. Neither may panic, and a restored run
//! must also be restorable after it is saved again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolwright_machine::AgentRun;
use toolwright_machine::journal::{Entry, replay};
use toolwright_types::Timestamp;

fuzz_target!(|text: &str| {
    if let Ok(mut run) = AgentRun::restore(text) {
        let _ = run.next();
        let _ = (run.outputs(), run.status(), run.wake_at());
        AgentRun::restore(&run.save()).expect("a saved run must restore");
    }
    let entries = text.lines().enumerate().filter_map(|(n, line)| {
        Entry::parse(n as u64 + 1, Timestamp::from_micros(n as i64), line).ok()
    });
    if let Ok((_, mut run)) = replay(entries) {
        let _ = run.next();
    }
});
