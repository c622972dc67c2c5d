//! Converts gRPC statuses to tool failures.

use std::error::Error;

use tonic::{Code, Status};
use toolwright_tools::ToolFailure;
use toolwright_tools::http::transport_failure;
use toolwright_types::{ErrorCode, ToolError};

/// Converts a status to a failure. A connection error becomes the failure that an HTTP tool reports for the same error.
pub(crate) fn to_failure(status: &Status) -> ToolFailure {
    let mut cause: Option<&(dyn Error + 'static)> = status.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<reqwest::Error>() {
            return transport_failure(error);
        }
        cause = error.source();
    }
    let code = match status.code() {
        Code::DeadlineExceeded => ErrorCode::Timeout,
        Code::ResourceExhausted => ErrorCode::RateLimit,
        Code::Unauthenticated | Code::PermissionDenied => ErrorCode::AuthRequired,
        Code::Unavailable => ErrorCode::NetworkError,
        Code::Cancelled => ErrorCode::Unknown,
        _ => ErrorCode::ProviderError,
    };
    let name = code_name(status.code());
    let message =
        if status.message().is_empty() { format!("the server returned {name}") } else { status.message().into() };
    let error = ToolError::new(code, message).reason("grpc_status").detail("grpc_status", name);
    // A call that failed with one of these codes may succeed later.
    let retryable = matches!(status.code(), Code::Unavailable | Code::ResourceExhausted | Code::Aborted);
    ToolFailure { retryable, ..ToolFailure::from(error) }
}

/// The name of a code in the gRPC specification.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
