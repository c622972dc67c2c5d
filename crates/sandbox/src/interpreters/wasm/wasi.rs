//! The functions of WASI preview 1 that a compiled command needs. Only the three standard streams exist.
//!
//! There are no arguments, no environment and no files. The clock is always zero and random numbers are always the
//! same, so that a job always returns the same result.

use wasmtime::{Caller, ExternType, ImportType, Linker, Module, Val};

use super::{State, StopReason, memory};

const MODULE: &str = "wasi_snapshot_preview1";

/// Error numbers of WASI.
const ERRNO_SUCCESS: i32 = 0;
const ERRNO_BADF: i32 = 8;
const ERRNO_FAULT: i32 = 21;
const ERRNO_INVAL: i32 = 28;
const ERRNO_NOSYS: i32 = 52;
const ERRNO_SPIPE: i32 = 70;

/// The maximum number of buffers that one call may read or write.
const MAX_IOVECS: u32 = 1024;

/// The maximum number of random bytes that one call returns.
const MAX_RANDOM_BYTES: u32 = 1 << 20;

/// Returns whether an import is a function of WASI. Functions that this file does not implement return `ENOSYS`.
pub(super) fn provides(import: &ImportType<'_>) -> bool {
    import.module() == MODULE && matches!(import.ty(), ExternType::Func(_))
}

pub(super) fn add_to_linker(linker: &mut Linker<State>, module: &Module) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    link_unsupported(linker, module)?;
    linker.func_wrap(MODULE, "fd_write", fd_write)?;
    linker.func_wrap(MODULE, "fd_read", fd_read)?;
    linker.func_wrap(MODULE, "fd_close", |_: Caller<'_, State>, descriptor: u32| check_stream(descriptor))?;
    linker.func_wrap(MODULE, "fd_fdstat_get", fd_fdstat_get)?;
    linker.func_wrap(MODULE, "fd_seek", |_: Caller<'_, State>, descriptor: u32, _: i64, _: i32, _: u32| {
        if check_stream(descriptor) == ERRNO_SUCCESS { ERRNO_SPIPE } else { ERRNO_BADF }
    })?;
    linker.func_wrap(MODULE, "fd_prestat_get", |_: Caller<'_, State>, _: u32, _: u32| ERRNO_BADF)?;
    linker.func_wrap(MODULE, "fd_prestat_dir_name", |_: Caller<'_, State>, _: u32, _: u32, _: u32| ERRNO_BADF)?;
    linker.func_wrap(MODULE, "args_sizes_get", write_empty_sizes)?;
    linker.func_wrap(MODULE, "args_get", |_: Caller<'_, State>, _: u32, _: u32| ERRNO_SUCCESS)?;
    linker.func_wrap(MODULE, "environ_sizes_get", write_empty_sizes)?;
    linker.func_wrap(MODULE, "environ_get", |_: Caller<'_, State>, _: u32, _: u32| ERRNO_SUCCESS)?;
    linker.func_wrap(MODULE, "clock_time_get", |mut caller: Caller<'_, State>, _: u32, _: i64, pointer: u32| {
        errno_of_write(memory::write(&mut caller, pointer, &0_u64.to_le_bytes()))
    })?;
    linker.func_wrap(MODULE, "clock_res_get", |mut caller: Caller<'_, State>, _: u32, pointer: u32| {
        errno_of_write(memory::write(&mut caller, pointer, &1_u64.to_le_bytes()))
    })?;
    linker.func_wrap(MODULE, "random_get", random_get)?;
    linker.func_wrap(MODULE, "sched_yield", |mut caller: Caller<'_, State>| -> wasmtime::Result<i32> {
        caller.data_mut().check_limits()?;
        Ok(ERRNO_SUCCESS)
    })?;
    linker.func_wrap(MODULE, "proc_exit", |_: Caller<'_, State>, code: i32| -> wasmtime::Result<()> {
        Err(StopReason::Exit(code).into())
    })?;
    Ok(())
}

/// Links every WASI import of the module to a function that fails with `ENOSYS`. Implemented functions replace these
/// later.
fn link_unsupported(linker: &mut Linker<State>, module: &Module) -> wasmtime::Result<()> {
    for import in module.imports().filter(provides) {
        let ExternType::Func(signature) = import.ty() else { continue };
        linker.func_new(MODULE, import.name(), signature, |mut caller, _, results| {
            caller.data_mut().check_limits()?;
            if let [result] = results {
                *result = Val::I32(ERRNO_NOSYS);
                return Ok(());
            }
            Err(StopReason::Exit(ERRNO_NOSYS).into())
        })?;
    }
    Ok(())
}

fn fd_write(
    mut caller: Caller<'_, State>,
    descriptor: u32,
    iovecs: u32,
    count: u32,
    written: u32,
) -> wasmtime::Result<i32> {
    caller.data_mut().check_limits()?;
    if !matches!(descriptor, 1 | 2) {
        return Ok(ERRNO_BADF);
    }
    if count > MAX_IOVECS {
        return Ok(ERRNO_INVAL);
    }
    let mut total = 0_u32;
    for index in 0..count {
        let Some((pointer, length)) = iovec(&mut caller, iovecs, index) else { return Ok(ERRNO_FAULT) };
        let Some(bytes) = memory::read(&mut caller, pointer, length).map(<[u8]>::to_vec) else {
            return Ok(ERRNO_FAULT);
        };
        let state = caller.data_mut();
        match descriptor {
            1 => state.write_stdout(&bytes)?,
            _ => state.meter.print(&bytes).map_err(StopReason::LimitExceeded)?,
        }
        total = total.saturating_add(length);
    }
    Ok(errno_of_write(memory::write(&mut caller, written, &total.to_le_bytes())))
}

fn fd_read(
    mut caller: Caller<'_, State>,
    descriptor: u32,
    iovecs: u32,
    count: u32,
    read: u32,
) -> wasmtime::Result<i32> {
    caller.data_mut().check_limits()?;
    if descriptor != 0 {
        return Ok(ERRNO_BADF);
    }
    if count > MAX_IOVECS {
        return Ok(ERRNO_INVAL);
    }
    let mut total = 0_u32;
    for index in 0..count {
        let Some((pointer, length)) = iovec(&mut caller, iovecs, index) else { return Ok(ERRNO_FAULT) };
        let state = caller.data();
        let rest = state.stdin.get(state.stdin_position..).unwrap_or_default();
        let bytes = rest.get(..usize::try_from(length)?.min(rest.len())).unwrap_or_default().to_vec();
        if memory::write(&mut caller, pointer, &bytes).is_none() {
            return Ok(ERRNO_FAULT);
        }
        caller.data_mut().stdin_position += bytes.len();
        total = total.saturating_add(u32::try_from(bytes.len())?);
    }
    Ok(errno_of_write(memory::write(&mut caller, read, &total.to_le_bytes())))
}

/// Returns the pointer and length of one buffer in an array of buffers.
fn iovec(caller: &mut Caller<'_, State>, iovecs: u32, index: u32) -> Option<(u32, u32)> {
    let entry = iovecs.checked_add(index.checked_mul(8)?)?;
    Some((memory::read_u32(caller, entry)?, memory::read_u32(caller, entry.checked_add(4)?)?))
}

/// Reports each stream as a character device with the rights to read and write.
fn fd_fdstat_get(mut caller: Caller<'_, State>, descriptor: u32, pointer: u32) -> i32 {
    const CHARACTER_DEVICE: u8 = 2;
    const READ_AND_WRITE: u64 = 1 << 1 | 1 << 6;
    if check_stream(descriptor) != ERRNO_SUCCESS {
        return ERRNO_BADF;
    }
    let rights = READ_AND_WRITE.to_le_bytes();
    let status = [&[CHARACTER_DEVICE, 0, 0, 0, 0, 0, 0, 0], rights.as_slice(), rights.as_slice()].concat();
    errno_of_write(memory::write(&mut caller, pointer, &status))
}

fn write_empty_sizes(mut caller: Caller<'_, State>, count: u32, size: u32) -> i32 {
    let zero = 0_u32.to_le_bytes();
    errno_of_write(memory::write(&mut caller, count, &zero).and_then(|()| memory::write(&mut caller, size, &zero)))
}

fn random_get(mut caller: Caller<'_, State>, pointer: u32, length: u32) -> wasmtime::Result<i32> {
    caller.data_mut().check_limits()?;
    if length > MAX_RANDOM_BYTES {
        return Ok(ERRNO_INVAL);
    }
    let state = caller.data_mut();
    let bytes: Vec<u8> = (0..length).map(|_| state.next_random()).collect();
    Ok(errno_of_write(memory::write(&mut caller, pointer, &bytes)))
}

impl State {
    /// Returns the next byte of a fixed pseudo-random sequence.
    fn next_random(&mut self) -> u8 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random.to_be_bytes()[0]
    }
}

fn check_stream(descriptor: u32) -> i32 {
    if descriptor <= 2 { ERRNO_SUCCESS } else { ERRNO_BADF }
}

fn errno_of_write(written: Option<()>) -> i32 {
    written.map_or(ERRNO_FAULT, |()| ERRNO_SUCCESS)
}
