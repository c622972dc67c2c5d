//! What a store gives back: entries and saved runs, whole or damaged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolwright_machine::AgentRun;
use toolwright_machine::journal::{Entry, replay};
use toolwright_types::Timestamp;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(mut run) = AgentRun::restore(bytes) {
        let _ = run.next();
        let _ = (run.outputs(), run.status(), run.wake_at());
        AgentRun::restore(&run.save()).expect("what was saved can be restored");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let entries = text.lines().enumerate().filter_map(|(n, line)| {
        Entry::read(n as u64 + 1, Timestamp::from_micros(n as i64), line).ok()
    });
    if let Ok((_, mut run)) = replay(entries) {
        let _ = run.next();
    }
});
