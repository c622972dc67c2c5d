//! Calls of granted functions by a module.
//!
//! A module imports `toolwright.call(request, length) -> length of the answer` and `toolwright.answer(place)`. A request is JSON,
//! `{"function": …, "arguments": {…}}`; an answer is `{"value": …}` or `{"error": "…"}`.

use serde::Deserialize;
use serde_json::{Value, json};
use wasmtime::{Caller, ImportType, Linker};

use super::{State, Stop, memory};
use crate::interpreters::meter::{HOST, NoAnswer};

const MODULE: &str = "toolwright";

#[derive(Deserialize)]
struct Request {
    function: String,
    #[serde(default = "no_arguments")]
    arguments: Value,
}

pub(super) fn offers(import: &ImportType<'_>) -> bool {
    import.module() == MODULE && matches!(import.name(), "call" | "answer")
}

pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "call", call)?;
    linker.func_wrap(MODULE, "answer", answer)?;
    Ok(())
}

fn call(mut caller: Caller<'_, State>, request: u32, length: u32) -> wasmtime::Result<i32> {
    caller.data_mut().tick()?;
    let request = memory::read(&mut caller, request, length).ok_or(Stop::Pointer("toolwright.call"))?;
    let answer = match serde_json::from_slice(request) {
        Ok(request) => ask(&mut caller, request)?,
        Err(error) => json!({ "error": format!("the request is not what it should be: {error}") }),
    };
    let answer = answer.to_string().into_bytes();
    let length = i32::try_from(answer.len())?;
    caller.data_mut().answer = answer;
    Ok(length)
}

fn ask(caller: &mut Caller<'_, State>, Request { function, arguments }: Request) -> Result<Value, Stop> {
    let answer = HOST.with(|host| caller.data_mut().meter.call(host, &function, arguments));
    match answer {
        Ok(value) => Ok(json!({ "value": value })),
        Err(NoAnswer::Error(why)) => Ok(json!({ "error": why })),
        Err(NoAnswer::Ends(limit)) => Err(Stop::Beyond(limit)),
    }
}

fn answer(mut caller: Caller<'_, State>, place: u32) -> wasmtime::Result<()> {
    caller.data_mut().tick()?;
    let answer = std::mem::take(&mut caller.data_mut().answer);
    memory::write(&mut caller, place, &answer).ok_or(Stop::Pointer("toolwright.answer"))?;
    Ok(())
}

fn no_arguments() -> Value {
    json!({})
}
