/** Texts for times, durations, costs and counts. */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The time since or until `date`, such as "3 min ago" or "in 2 h". */
export function relativeTime(date: Date | string, now: number): string {
  const difference = new Date(date).getTime() - now;
  const amount = Math.abs(difference);
  if (amount < 5 * SECOND) return "just now";
  const text = coarseDuration(amount);
  return difference < 0 ? `${text} ago` : `in ${text}`;
}

function coarseDuration(ms: number): string {
  if (ms < MINUTE) return `${Math.round(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.round(ms / MINUTE)} min`;
  if (ms < DAY) return `${Math.round(ms / HOUR)} h`;
  const days = Math.round(ms / DAY);
  return days === 1 ? "1 day" : `${days} days`;
}

/** The time in the time zone of the browser, with seconds. */
export function exactTime(date: Date | string): string {
  return new Date(date).toLocaleString("en-GB", {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    timeZoneName: "short",
  });
}

/** A duration with about three significant digits: "4 ms", "1.2 s", "3 min 20 s". */
export function duration(ms: number): string {
  if (ms < 1) return "0 ms";
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 9.95 * SECOND) return `${(ms / SECOND).toFixed(1)} s`;
  if (ms < MINUTE) return `${Math.round(ms / SECOND)} s`;
  if (ms < HOUR) return pair(ms, MINUTE, "min", SECOND, "s");
  if (ms < DAY) return pair(ms, HOUR, "h", MINUTE, "min");
  return pair(ms, DAY, "d", HOUR, "h");
}

function pair(ms: number, large: number, largeName: string, small: number, smallName: string): string {
  const first = Math.floor(ms / large);
  const second = Math.floor((ms % large) / small);
  return second === 0 ? `${first} ${largeName}` : `${first} ${largeName} ${second} ${smallName}`;
}

/** A cost in dollars. Small costs keep two significant digits. */
export function cost(usd: number): string {
  if (usd === 0) return "$0";
  if (usd < 0.0001) return "< $0.0001";
  if (usd < 0.01) return `$${usd.toFixed(4)}`;
  if (usd < 1) return `$${usd.toFixed(3)}`;
  return `$${usd.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

/** A count, with a thin space between groups of three digits. */
export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US").replaceAll(",", "\u202f");
}

/** A count with at most four characters: "950", "12.3k", "4.1M". */
export function shortCount(value: number): string {
  if (value < 1000) return String(Math.round(value));
  if (value < 999_500) return `${trimZero((value / 1000).toFixed(value < 99_950 ? 1 : 0))}k`;
  return `${trimZero((value / 1_000_000).toFixed(1))}M`;
}

function trimZero(text: string): string {
  return text.replace(/\.0$/, "");
}

/** A number with its noun: "1 call", "3 calls". */
export function plural(value: number, noun: string, many = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : many}`;
}

/** The last characters of an id, which differ between ids of the same minute. */
export function shortId(id: string): string {
  const underscore = id.indexOf("_");
  return id.length - underscore > 9 ? `${id.slice(0, underscore + 1)}…${id.slice(-6)}` : id;
}

/** The first line of a text. */
export function firstLine(text: string): string {
  return text.trimStart().split("\n", 1)[0]?.trimEnd() ?? "";
}
