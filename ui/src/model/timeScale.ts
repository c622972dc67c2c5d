/** The horizontal axis of a waterfall. Idle time, in which the run only waits, is folded to a narrow strip. */

export interface Interval {
  start: number;
  end: number;
}

export interface Fold extends Interval {
  /** Where the strip begins and ends, from 0 to 1. */
  left: number;
  right: number;
}

interface Segment extends Interval {
  left: number;
  right: number;
  folded: boolean;
}

export interface TimeScale {
  /** The position of a time, from 0 to 1. */
  position(time: number): number;
  folds: Fold[];
  start: number;
  end: number;
}

/** Idle time below this is shown at its real length. */
const MIN_FOLDED_MS = 1500;
/** The width of one fold, as a share of the axis. All folds together take at most a third. */
const FOLD_SHARE = 0.05;
const MAX_FOLDS_SHARE = 1 / 3;

/** Creates the scale for the work in `busy` between `start` and `end`. */
export function timeScale(busy: Interval[], start: number, end: number): TimeScale {
  const segments = split(mergeIntervals(busy), start, Math.max(end, start + 1));
  const folds = segments.filter((segment) => segment.folded);
  const share = folds.length === 0 ? 0 : Math.min(FOLD_SHARE, MAX_FOLDS_SHARE / folds.length);
  const shown = segments.filter((segment) => !segment.folded).reduce((sum, segment) => sum + segment.end - segment.start, 0);
  let left = 0;
  for (const segment of segments) {
    const width = segment.folded ? share : shown === 0 ? 0 : ((segment.end - segment.start) / shown) * (1 - share * folds.length);
    segment.left = left;
    segment.right = left + width;
    left = segment.right;
  }
  return { position: (time) => position(segments, time), folds, start, end };
}

/** The space that a label on the axis needs, as a share of the axis. */
const LABEL_SHARE = 0.14;

/** The labels above the axis: the length of each fold that has room, and the total length at the end if it has room. */
export function axisLabels(scale: TimeScale): { folds: { at: number; ms: number }[]; total: number | undefined } {
  const folds: { at: number; ms: number }[] = [];
  for (const fold of scale.folds) {
    const at = Math.min(1 - LABEL_SHARE / 2, Math.max(LABEL_SHARE, (fold.left + fold.right) / 2));
    if (at - (folds.at(-1)?.at ?? -1) >= LABEL_SHARE) folds.push({ at, ms: fold.end - fold.start });
  }
  const hasRoom = (folds.at(-1)?.at ?? 0) <= 1 - 1.5 * LABEL_SHARE;
  return { folds, total: hasRoom ? scale.end - scale.start : undefined };
}

/** Splits the axis into parts at real length and folded parts. */
function split(busy: Interval[], start: number, end: number): Segment[] {
  const work = busy.reduce((sum, one) => sum + one.end - one.start, 0);
  // A gap is worth folding only if it is long in comparison with the work.
  const limit = Math.max(MIN_FOLDED_MS, work / 2);
  const segments: Segment[] = [];
  let from = start;
  const add = (until: number, folded: boolean) => {
    if (until > from) segments.push({ start: from, end: until, left: 0, right: 0, folded });
    from = Math.max(from, until);
  };
  let idleFrom = start;
  for (const one of [...busy, { start: end, end }]) {
    if (one.start - idleFrom >= limit) {
      add(idleFrom, false);
      add(one.start, true);
    }
    idleFrom = Math.max(idleFrom, one.end);
  }
  add(end, false);
  return segments;
}

/** Returns the intervals sorted and without overlaps. */
export function mergeIntervals(intervals: Interval[]): Interval[] {
  const merged: Interval[] = [];
  for (const { start, end } of [...intervals].sort((a, b) => a.start - b.start)) {
    const last = merged.at(-1);
    if (last && start <= last.end) last.end = Math.max(last.end, end);
    else merged.push({ start, end });
  }
  return merged;
}

function position(segments: Segment[], time: number): number {
  let low = 0;
  let high = segments.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time > (segments[middle]?.end ?? 0)) low = middle + 1;
    else high = middle;
  }
  const segment = segments[low];
  if (!segment) return 0;
  const share = Math.min(1, Math.max(0, (time - segment.start) / (segment.end - segment.start)));
  return segment.left + share * (segment.right - segment.left);
}
