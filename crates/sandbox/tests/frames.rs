//! Encoding and decoding of frames, including incomplete and malformed ones.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic; the exemption of the lints for tests does not cover helper functions"
)]

use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_sandbox::frame::{self, FrameError, FromWorker, ToWorker};
use toolwright_sandbox::{Job, JobError, JobLimits, JobOutput, Limit};

const ANY: u64 = u32::MAX as u64;

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON numbers are finite", |number| number.is_finite()).prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(".{0,8}", inner, 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn to_worker() -> impl Strategy<Value = ToWorker> {
    let limits = (any::<u32>(), any::<u64>(), any::<u64>(), any::<u32>(), any::<u32>()).prop_map(
        |(time, memory, output, depth, host_calls)| JobLimits {
            time: Duration::from_millis(time.into()),
            memory,
            output,
            depth,
            host_calls,
        },
    );
    let job = (".*", values(), vec("[a-z]{1,9}", 0..4), limits).prop_map(|(code, inputs, functions, limits)| Job {
        code,
        inputs,
        functions,
        limits,
    });
    prop_oneof![job.prop_map(ToWorker::Run), prop::result::maybe_ok(values(), ".*").prop_map(ToWorker::Answer)]
}

fn from_worker() -> impl Strategy<Value = FromWorker> {
    let output = (values(), ".*").prop_map(|(result, stdout)| JobOutput { result, stdout });
    let error = prop_oneof![
        (".*", any::<Option<u32>>()).prop_map(|(message, line)| JobError::Code { message, line }),
        (".*", any::<Option<u32>>(), ".*").prop_map(|(message, line, stdout)| JobError::Exception {
            message,
            line,
            stdout
        }),
        prop::sample::select(vec![Limit::Time, Limit::Memory, Limit::Output, Limit::Depth, Limit::HostCalls])
            .prop_map(|limit| JobError::Limit { limit }),
        ".*".prop_map(|reason| JobError::Unavailable { reason }),
    ];
    prop_oneof![
        ("[a-z]{1,9}", values()).prop_map(|(function, arguments)| FromWorker::Call { function, arguments }),
        prop::result::maybe_ok(output, error).prop_map(FromWorker::Finished),
    ]
}

/// Reads a frame with the async reader. The input is in memory, so a plain runtime without I/O is enough.
fn read_async(bytes: &[u8]) -> Result<FromWorker, FrameError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(frame::read(&mut &bytes[..], ANY))
}

proptest! {
    #[test]
    fn messages_round_trip_through_frames(to in vec(to_worker(), 1..4), from in vec(from_worker(), 1..4)) {
        let mut pipe = Vec::new();
        for message in &to {
            frame::write_blocking(&mut pipe, message).unwrap();
        }
        let mut rest = &pipe[..];
        for message in &to {
            prop_assert_eq!(&frame::read_blocking::<ToWorker>(&mut rest, ANY).unwrap(), message);
        }
        prop_assert!(matches!(frame::read_blocking::<ToWorker>(&mut rest, ANY), Err(FrameError::Closed)));
        for message in &from {
            prop_assert_eq!(&read_async(&frame::encode(message).unwrap()).unwrap(), message);
        }
    }

    #[test]
    fn truncated_frame_is_reported_as_a_closed_pipe(message in from_worker(), cut in any::<prop::sample::Index>()) {
        let whole = frame::encode(&message).unwrap();
        let half = &whole[..cut.index(whole.len())];
        prop_assert!(matches!(frame::read_blocking::<FromWorker>(&mut &half[..], ANY), Err(FrameError::Closed)));
        prop_assert!(matches!(read_async(half), Err(FrameError::Closed)));
    }

    #[test]
    fn reading_a_frame_from_random_bytes_fails(noise in vec(any::<u8>(), 0..200)) {
        prop_assert!(frame::read_blocking::<FromWorker>(&mut &noise[..], 100).is_err());
        prop_assert!(read_async(&noise).is_err());
    }
}

#[test]
fn frame_length_above_the_limit_is_rejected_before_reading() {
    let announced = [0, 0, 1, 0];
    let read = frame::read_blocking::<FromWorker>(&mut &announced[..], 255);
    assert!(matches!(read, Err(FrameError::TooLong { length: 256, allowed: 255 })), "{read:?}");
}

#[test]
fn values_up_to_the_maximum_nesting_are_transferred() {
    let nested = |levels: usize| (0..levels).fold(Value::Null, |inner, _| json!({ "a": inner }));
    assert!(frame::is_within_max_nesting(&nested(frame::MAX_NESTING)));
    assert!(!frame::is_within_max_nesting(&nested(frame::MAX_NESTING + 1)));
    let call = FromWorker::Call { function: "f".to_owned(), arguments: nested(frame::MAX_NESTING) };
    assert_eq!(read_async(&frame::encode(&call).unwrap()).unwrap(), call);
}

#[test]
fn frame_of_one_megabyte_is_read() {
    let output = JobOutput { result: json!("x".repeat(1 << 20)), stdout: String::new() };
    let message = FromWorker::Finished(Ok(output));
    assert_eq!(read_async(&frame::encode(&message).unwrap()).unwrap(), message);
}
