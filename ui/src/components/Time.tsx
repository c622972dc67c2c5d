import { useSyncExternalStore } from "react";
import { exactTime, relativeTime } from "@/model/format";

let now = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** One clock for all relative times, so that they change together. */
function subscribe(listener: () => void) {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    listeners.forEach((notify) => notify());
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The current time, which changes once per second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

export function Time({ at, className }: { at: string; className?: string }) {
  const current = useNow();
  return (
    <time dateTime={at} title={exactTime(at)} className={className}>
      {relativeTime(at, Math.max(current, now))}
    </time>
  );
}
