// Defines the global variables and functions that the code has in addition to the language itself.
// `write` appends to the printed text.
(write) => {
  "use strict";
  const { stringify } = JSON;
  const { construct } = Reflect;

  const show = (value) => {
    if (typeof value !== "object" || value === null || value instanceof Error) return String(value);
    try {
      return stringify(value) ?? String(value);
    } catch {
      return "[object]";
    }
  };
  const print = (...values) => write((values.map(show).join(" ") + "\n").toWellFormed());
  const console = { log: print, info: print, warn: print, error: print, debug: print };

  // The same job must return the same result, so there is no clock. Dates with explicit values work.
  const NativeDate = Date;
  const noClock = () => {
    throw new Error("the sandbox has no clock; pass the time as an input");
  };
  const ClocklessDate = function Date(...parts) {
    return new.target && parts.length > 0 ? construct(NativeDate, parts, new.target) : noClock();
  };
  ClocklessDate.prototype = NativeDate.prototype;
  NativeDate.prototype.constructor = ClocklessDate;
  ClocklessDate.parse = NativeDate.parse;
  ClocklessDate.UTC = NativeDate.UTC;
  ClocklessDate.now = noClock;

  // A fixed seed: random numbers are the same in every job.
  let state = 0x9e3779b9;
  Math.random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };

  for (const [name, value] of Object.entries({ print, console, Date: ClocklessDate })) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
  // Removes shared memory, because there are no worker threads to share it with.
  delete globalThis.SharedArrayBuffer;
  delete globalThis.Atomics;
};
