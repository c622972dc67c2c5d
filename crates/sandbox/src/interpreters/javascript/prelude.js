// What code finds beside the language itself. Given the function that writes to standard output.
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

  // The same job gives the same result, so nothing tells the time. Dates that are given can be worked with.
  const Dates = Date;
  const noClock = () => {
    throw new Error("there is no clock: pass the time as an input");
  };
  const GivenDate = function Date(...parts) {
    return new.target && parts.length > 0 ? construct(Dates, parts, new.target) : noClock();
  };
  GivenDate.prototype = Dates.prototype;
  Dates.prototype.constructor = GivenDate;
  GivenDate.parse = Dates.parse;
  GivenDate.UTC = Dates.UTC;
  GivenDate.now = noClock;

  // A fixed seed: random numbers are as repeatable as everything else.
  let state = 0x9e3779b9;
  Math.random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };

  for (const [name, value] of Object.entries({ print, console, Date: GivenDate })) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
  // There is nobody to share memory with.
  delete globalThis.SharedArrayBuffer;
  delete globalThis.Atomics;
};
