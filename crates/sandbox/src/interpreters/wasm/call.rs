//! The imports through which a module calls host functions.
//!
//! A module imports `toolwright.call(request, length) -> length of the answer` and `toolwright.answer(pointer)`. A
//! request is JSON, `{"function": …, "arguments": {…}}`. An answer is `{"value": …}` or `{"error": "…"}`.

use serde::Deserialize;
use serde_json::{Value, json};
use wasmtime::{Caller, ImportType, Linker};

use super::{State, StopReason, memory};
use crate::interpreters::meter::{HOST, HostCallError};

const MODULE: &str = "toolwright";

#[derive(Deserialize)]
struct Request {
    function: String,
    #[serde(default = "no_arguments")]
    arguments: Value,
}

pub(super) fn provides(import: &ImportType<'_>) -> bool {
    import.module() == MODULE && matches!(import.name(), "call" | "answer")
}

pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "call", call)?;
    linker.func_wrap(MODULE, "answer", answer)?;
    Ok(())
}

fn call(mut caller: Caller<'_, State>, request: u32, length: u32) -> wasmtime::Result<i32> {
    caller.data_mut().check_limits()?;
    let request = memory::read(&mut caller, request, length).ok_or(StopReason::OutOfBounds("toolwright.call"))?;
    let answer = match serde_json::from_slice(request) {
        Ok(request) => call_host(&mut caller, request)?,
        Err(error) => json!({ "error": format!("invalid request: {error}") }),
    };
    let answer = answer.to_string().into_bytes();
    let length = i32::try_from(answer.len())?;
    caller.data_mut().answer = answer;
    Ok(length)
}

fn call_host(caller: &mut Caller<'_, State>, Request { function, arguments }: Request) -> Result<Value, StopReason> {
    let answer = HOST.with(|host| caller.data_mut().meter.call(host, &function, arguments));
    match answer {
        Ok(value) => Ok(json!({ "value": value })),
        Err(HostCallError::Failed(message)) => Ok(json!({ "error": message })),
        Err(HostCallError::LimitExceeded(limit)) => Err(StopReason::LimitExceeded(limit)),
    }
}

fn answer(mut caller: Caller<'_, State>, pointer: u32) -> wasmtime::Result<()> {
    caller.data_mut().check_limits()?;
    let answer = std::mem::take(&mut caller.data_mut().answer);
    memory::write(&mut caller, pointer, &answer).ok_or(StopReason::OutOfBounds("toolwright.answer"))?;
    Ok(())
}

fn no_arguments() -> Value {
    json!({})
}
