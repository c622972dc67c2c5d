//! Bounds-checked access to the memory of a module.

use wasmtime::{Caller, Extern};

use super::State;

/// Returns `length` bytes at an offset, or `None` if they are out of bounds.
pub(super) fn read<'c>(caller: &'c mut Caller<'_, State>, offset: u32, length: u32) -> Option<&'c [u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else { return None };
    memory.data(caller).get(start..end)
}

/// Writes bytes at an offset. Returns `None` and writes nothing if they are out of bounds.
pub(super) fn write(caller: &mut Caller<'_, State>, offset: u32, bytes: &[u8]) -> Option<()> {
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else { return None };
    memory.write(caller, usize::try_from(offset).ok()?, bytes).ok()
}

/// Returns the 32-bit integer at an offset.
pub(super) fn read_u32(caller: &mut Caller<'_, State>, offset: u32) -> Option<u32> {
    let bytes = read(caller, offset, 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}
