//! The part of WASI preview 1 that a compiled command needs: three streams, and an honest no to everything else.
//!
//! There are no arguments, no environment and no files. The clock stands still at zero and random numbers are always the same, so
//! that a job gives the same result whenever it runs.

use wasmtime::{Caller, ExternType, ImportType, Linker, Module, Val};

use super::{State, Stop, memory};

const MODULE: &str = "wasi_snapshot_preview1";

/// Numbers of errors, as WASI has them.
const SUCCESS: i32 = 0;
const BAD_DESCRIPTOR: i32 = 8;
const FAULT: i32 = 21;
const INVALID: i32 = 28;
const NOT_OFFERED: i32 = 52;
const NOT_SEEKABLE: i32 = 70;

/// The most pieces that one call may read or write.
const PIECES: u32 = 1024;

/// The most random bytes that one call may ask for.
const RANDOM: u32 = 1 << 20;

/// Every function of WASI is there. Those that are not in this file say that they are not offered.
pub(super) fn offers(import: &ImportType<'_>) -> bool {
    import.module() == MODULE && matches!(import.ty(), ExternType::Func(_))
}

pub(super) fn link(linker: &mut Linker<State>, module: &Module) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    refuse_all(linker, module)?;
    linker.func_wrap(MODULE, "fd_write", fd_write)?;
    linker.func_wrap(MODULE, "fd_read", fd_read)?;
    linker.func_wrap(MODULE, "fd_close", |_: Caller<'_, State>, descriptor: u32| stream(descriptor))?;
    linker.func_wrap(MODULE, "fd_fdstat_get", fd_fdstat_get)?;
    linker.func_wrap(
        MODULE,
        "fd_seek",
        |_: Caller<'_, State>, descriptor: u32, _: i64, _: i32, _: u32| {
            if stream(descriptor) == SUCCESS { NOT_SEEKABLE } else { BAD_DESCRIPTOR }
        },
    )?;
    linker.func_wrap(MODULE, "fd_prestat_get", |_: Caller<'_, State>, _: u32, _: u32| BAD_DESCRIPTOR)?;
    linker.func_wrap(MODULE, "fd_prestat_dir_name", |_: Caller<'_, State>, _: u32, _: u32, _: u32| BAD_DESCRIPTOR)?;
    linker.func_wrap(MODULE, "args_sizes_get", nothing_of)?;
    linker.func_wrap(MODULE, "args_get", |_: Caller<'_, State>, _: u32, _: u32| SUCCESS)?;
    linker.func_wrap(MODULE, "environ_sizes_get", nothing_of)?;
    linker.func_wrap(MODULE, "environ_get", |_: Caller<'_, State>, _: u32, _: u32| SUCCESS)?;
    linker.func_wrap(MODULE, "clock_time_get", |mut caller: Caller<'_, State>, _: u32, _: i64, place: u32| {
        stored(memory::write(&mut caller, place, &0_u64.to_le_bytes()))
    })?;
    linker.func_wrap(MODULE, "clock_res_get", |mut caller: Caller<'_, State>, _: u32, place: u32| {
        stored(memory::write(&mut caller, place, &1_u64.to_le_bytes()))
    })?;
    linker.func_wrap(MODULE, "random_get", random_get)?;
    linker.func_wrap(MODULE, "sched_yield", |mut caller: Caller<'_, State>| -> wasmtime::Result<i32> {
        caller.data_mut().tick()?;
        Ok(SUCCESS)
    })?;
    linker.func_wrap(MODULE, "proc_exit", |_: Caller<'_, State>, code: i32| -> wasmtime::Result<()> {
        Err(Stop::Exit(code).into())
    })?;
    Ok(())
}

/// Links everything that a module imports from WASI to functions that fail, with the error that says so. Those that are offered
/// take the places of theirs.
fn refuse_all(linker: &mut Linker<State>, module: &Module) -> wasmtime::Result<()> {
    for import in module.imports().filter(offers) {
        let ExternType::Func(signature) = import.ty() else { continue };
        linker.func_new(MODULE, import.name(), signature, |mut caller, _, results| {
            caller.data_mut().tick()?;
            if let [result] = results {
                *result = Val::I32(NOT_OFFERED);
                return Ok(());
            }
            Err(Stop::Exit(NOT_OFFERED).into())
        })?;
    }
    Ok(())
}

fn fd_write(
    mut caller: Caller<'_, State>,
    descriptor: u32,
    pieces: u32,
    count: u32,
    written: u32,
) -> wasmtime::Result<i32> {
    caller.data_mut().tick()?;
    if !matches!(descriptor, 1 | 2) {
        return Ok(BAD_DESCRIPTOR);
    }
    if count > PIECES {
        return Ok(INVALID);
    }
    let mut total = 0_u32;
    for index in 0..count {
        let Some((place, length)) = piece(&mut caller, pieces, index) else { return Ok(FAULT) };
        let Some(bytes) = memory::read(&mut caller, place, length).map(<[u8]>::to_vec) else { return Ok(FAULT) };
        let state = caller.data_mut();
        match descriptor {
            1 => state.write(&bytes)?,
            _ => state.meter.print(&bytes).map_err(Stop::Beyond)?,
        }
        total = total.saturating_add(length);
    }
    Ok(stored(memory::write(&mut caller, written, &total.to_le_bytes())))
}

fn fd_read(
    mut caller: Caller<'_, State>,
    descriptor: u32,
    pieces: u32,
    count: u32,
    read: u32,
) -> wasmtime::Result<i32> {
    caller.data_mut().tick()?;
    if descriptor != 0 {
        return Ok(BAD_DESCRIPTOR);
    }
    if count > PIECES {
        return Ok(INVALID);
    }
    let mut total = 0_u32;
    for index in 0..count {
        let Some((place, length)) = piece(&mut caller, pieces, index) else { return Ok(FAULT) };
        let state = caller.data();
        let left = state.input.get(state.read..).unwrap_or_default();
        let bytes = left.get(..usize::try_from(length)?.min(left.len())).unwrap_or_default().to_vec();
        if memory::write(&mut caller, place, &bytes).is_none() {
            return Ok(FAULT);
        }
        caller.data_mut().read += bytes.len();
        total = total.saturating_add(u32::try_from(bytes.len())?);
    }
    Ok(stored(memory::write(&mut caller, read, &total.to_le_bytes())))
}

/// Where one of several pieces is, and how long.
fn piece(caller: &mut Caller<'_, State>, pieces: u32, index: u32) -> Option<(u32, u32)> {
    let place = pieces.checked_add(index.checked_mul(8)?)?;
    Some((memory::number(caller, place)?, memory::number(caller, place.checked_add(4)?)?))
}

/// Streams are devices of characters, and everything may be done with them that can be done at all.
fn fd_fdstat_get(mut caller: Caller<'_, State>, descriptor: u32, place: u32) -> i32 {
    const CHARACTER_DEVICE: u8 = 2;
    const READ_AND_WRITE: u64 = 1 << 1 | 1 << 6;
    if stream(descriptor) != SUCCESS {
        return BAD_DESCRIPTOR;
    }
    let rights = READ_AND_WRITE.to_le_bytes();
    let status = [&[CHARACTER_DEVICE, 0, 0, 0, 0, 0, 0, 0], rights.as_slice(), rights.as_slice()].concat();
    stored(memory::write(&mut caller, place, &status))
}

fn nothing_of(mut caller: Caller<'_, State>, count: u32, size: u32) -> i32 {
    let none = 0_u32.to_le_bytes();
    stored(memory::write(&mut caller, count, &none).and_then(|()| memory::write(&mut caller, size, &none)))
}

fn random_get(mut caller: Caller<'_, State>, place: u32, length: u32) -> wasmtime::Result<i32> {
    caller.data_mut().tick()?;
    if length > RANDOM {
        return Ok(INVALID);
    }
    let state = caller.data_mut();
    let bytes: Vec<u8> = (0..length).map(|_| state.random()).collect();
    Ok(stored(memory::write(&mut caller, place, &bytes)))
}

impl State {
    /// The next number of a sequence that is always the same.
    fn random(&mut self) -> u8 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random.to_be_bytes()[0]
    }
}

fn stream(descriptor: u32) -> i32 {
    if descriptor <= 2 { SUCCESS } else { BAD_DESCRIPTOR }
}

fn stored(written: Option<()>) -> i32 {
    written.map_or(FAULT, |()| SUCCESS)
}
