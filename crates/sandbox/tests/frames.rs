//! Frames, whole and broken.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_sandbox::frame::{self, FrameError, FromWorker, ToWorker};
use toolwright_sandbox::{Done, Failure, Job, Limit, Limits};

const ANY: u64 = u32::MAX as u64;

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no others", |number| number.is_finite()).prop_map(Value::from),
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
        |(time, memory, output, depth, host_calls)| Limits {
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
    let done = (values(), ".*").prop_map(|(result, stdout)| Done { result, stdout });
    let failure = prop_oneof![
        (".*", any::<Option<u32>>()).prop_map(|(message, line)| Failure::Code { message, line }),
        (".*", any::<Option<u32>>(), ".*").prop_map(|(message, line, stdout)| Failure::Exception {
            message,
            line,
            stdout
        }),
        prop::sample::select(vec![Limit::Time, Limit::Memory, Limit::Output, Limit::Depth, Limit::HostCalls])
            .prop_map(|limit| Failure::Limit { limit }),
        ".*".prop_map(|reason| Failure::Unavailable { reason }),
    ];
    prop_oneof![
        ("[a-z]{1,9}", values()).prop_map(|(function, arguments)| FromWorker::Call { function, arguments }),
        prop::result::maybe_ok(done, failure).prop_map(FromWorker::Finished),
    ]
}

/// Waits for nothing but memory, so any executor will do.
fn read_async(bytes: &[u8]) -> Result<FromWorker, FrameError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(frame::read(&mut &bytes[..], ANY))
}

proptest! {
    #[test]
    fn what_is_written_is_read(jobs in vec(to_worker(), 1..4), said in vec(from_worker(), 1..4)) {
        let mut pipe = Vec::new();
        for message in &jobs {
            frame::write_blocking(&mut pipe, message).unwrap();
        }
        let mut rest = &pipe[..];
        for message in &jobs {
            prop_assert_eq!(&frame::read_blocking::<ToWorker>(&mut rest, ANY).unwrap(), message);
        }
        prop_assert!(matches!(frame::read_blocking::<ToWorker>(&mut rest, ANY), Err(FrameError::Closed)));
        for message in &said {
            prop_assert_eq!(&read_async(&frame::encode(message).unwrap()).unwrap(), message);
        }
    }

    #[test]
    fn half_a_frame_is_no_frame(message in from_worker(), cut in any::<prop::sample::Index>()) {
        let whole = frame::encode(&message).unwrap();
        let half = &whole[..cut.index(whole.len())];
        prop_assert!(matches!(frame::read_blocking::<FromWorker>(&mut &half[..], ANY), Err(FrameError::Closed)));
        prop_assert!(matches!(read_async(half), Err(FrameError::Closed)));
    }

    #[test]
    fn noise_is_an_error_and_nothing_worse(noise in vec(any::<u8>(), 0..200)) {
        prop_assert!(frame::read_blocking::<FromWorker>(&mut &noise[..], 100).is_err());
        prop_assert!(read_async(&noise).is_err());
    }
}

#[test]
fn a_length_that_is_not_allowed_is_not_waited_for() {
    let announced = [0, 0, 1, 0];
    let read = frame::read_blocking::<FromWorker>(&mut &announced[..], 255);
    assert!(matches!(read, Err(FrameError::TooLong { length: 256, allowed: 255 })), "{read:?}");
}

#[test]
fn values_cross_up_to_a_depth_that_the_reader_takes() {
    let nested = |levels: usize| (0..levels).fold(Value::Null, |inner, _| json!({ "a": inner }));
    assert!(frame::is_shallow(&nested(frame::MAX_NESTING)));
    assert!(!frame::is_shallow(&nested(frame::MAX_NESTING + 1)));
    let call = FromWorker::Call { function: "f".to_owned(), arguments: nested(frame::MAX_NESTING) };
    assert_eq!(read_async(&frame::encode(&call).unwrap()).unwrap(), call);
}

#[test]
fn a_large_frame_is_read_as_well() {
    let done = Done { result: json!("x".repeat(1 << 20)), stdout: String::new() };
    let message = FromWorker::Finished(Ok(done));
    assert_eq!(read_async(&frame::encode(&message).unwrap()).unwrap(), message);
}
