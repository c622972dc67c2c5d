//! The memory of a module, as far as it really goes.

use wasmtime::{Caller, Extern};

use super::State;

/// So many bytes at a place, or nothing if the memory ends before.
pub(super) fn read<'c>(caller: &'c mut Caller<'_, State>, place: u32, length: u32) -> Option<&'c [u8]> {
    let start = usize::try_from(place).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else { return None };
    memory.data(caller).get(start..end)
}

/// Writes bytes to a place, all or none.
pub(super) fn write(caller: &mut Caller<'_, State>, place: u32, bytes: &[u8]) -> Option<()> {
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else { return None };
    memory.write(caller, usize::try_from(place).ok()?, bytes).ok()
}

/// A number of 32 bits at a place.
pub(super) fn number(caller: &mut Caller<'_, State>, place: u32) -> Option<u32> {
    let bytes = read(caller, place, 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}
