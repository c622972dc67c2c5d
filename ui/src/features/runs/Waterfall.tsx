import { useVirtualizer } from "@tanstack/react-virtual";
import { CornerDownRight } from "lucide-react";
import { useEffect, useMemo, useRef } from "react";
import { cx } from "@/components/cx";
import type { EntrySummary, Lane } from "@/model/entries";
import { duration } from "@/model/format";
import { type TimeScale, axisLabels, timeScale } from "@/model/timeScale";

const ROW = 30;

const BARS: Record<Lane, string> = {
  model: "bg-span-model",
  tool: "bg-span-tool",
  wait: "bg-span-wait stripes",
  other: "bg-span-other",
};

interface WaterfallProps {
  entries: EntrySummary[];
  /** The end of the axis: the end of the run, or now. */
  end: number;
  selected: number | undefined;
  onSelect: (n: number) => void;
  runningSince: number | undefined;
}

/** The entries of a run as rows on a common time axis. The selected row is the playhead. */
export function Waterfall({ entries, end, selected, onSelect, runningSince }: WaterfallProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const scale = useMemo(() => scaleOf(entries, end, runningSince), [entries, end, runningSince]);
  const virtual = useVirtualizer({ count: entries.length, getScrollElement: () => scroller.current, estimateSize: () => ROW, overscan: 16 });
  const index = entries.findIndex((entry) => entry.n === selected);

  // The first view of a long run must show the entry at which it opens.
  useEffect(() => {
    if (index >= 0) virtual.scrollToIndex(index, { align: "auto" });
  }, [index, virtual]);

  function onKey(event: React.KeyboardEvent) {
    const steps: Record<string, number> = {
      ArrowDown: index + 1,
      ArrowUp: index - 1,
      Home: 0,
      End: entries.length - 1,
      PageDown: index + 15,
      PageUp: index - 15,
    };
    const target = steps[event.key];
    if (target === undefined) return;
    event.preventDefault();
    const entry = entries[Math.min(entries.length - 1, Math.max(0, target))];
    if (entry) onSelect(entry.n);
  }

  const current = entries[index];
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <Axis scale={scale} />
      <div
        ref={scroller}
        role="listbox"
        aria-label="Journal of the run"
        aria-activedescendant={current ? `entry-${current.n}` : undefined}
        tabIndex={0}
        onKeyDown={onKey}
        className="relative min-h-0 flex-1 overflow-y-auto -outline-offset-2"
      >
        <div className="relative" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const entry = entries[item.index];
            return (
              entry && (
                <Row
                  key={entry.n}
                  entry={entry}
                  top={item.start}
                  scale={scale}
                  selected={entry.n === selected}
                  past={item.index <= index}
                  onSelect={onSelect}
                />
              )
            );
          })}
        </div>
      </div>
    </div>
  );
}

function scaleOf(entries: EntrySummary[], end: number, runningSince: number | undefined): TimeScale {
  const first = entries[0]?.start ?? 0;
  const busy = entries.filter((entry) => entry.lane !== "wait").map(({ start, end }) => ({ start, end }));
  if (runningSince !== undefined) busy.push({ start: runningSince, end });
  return timeScale(busy, first, Math.max(end, entries.at(-1)?.end ?? first));
}

/** A label beyond this position ends at the end of the axis, because it may be wider than the rest of it. */
const LAST_LABEL = 0.8;

const LABEL_WIDTH = "w-[56%] sm:w-[44%]";

function Axis({ scale }: { scale: TimeScale }) {
  const { folds, total } = axisLabels(scale);
  return (
    <div className="flex h-8 shrink-0 items-center border-b bg-sunken text-[11px] text-faint tabular">
      <div className={cx(LABEL_WIDTH, "shrink-0 px-3")}>Entry</div>
      <div className="relative mr-3 h-full min-w-0 flex-1 overflow-hidden">
        <span className="absolute top-1/2 left-0 -translate-y-1/2">0</span>
        {total !== undefined && <span className="absolute top-1/2 right-0 -translate-y-1/2">{duration(total)}</span>}
        {folds.map((fold) => (
          <span
            key={fold.at}
            title={`${duration(fold.ms)} of waiting, folded`}
            className={cx(
              "absolute top-1/2 -translate-y-1/2 rounded bg-wait-soft px-1 whitespace-nowrap text-wait",
              fold.at < LAST_LABEL && "-translate-x-1/2",
            )}
            style={fold.at < LAST_LABEL ? { left: `${fold.at * 100}%` } : { right: 0 }}
          >
            {duration(fold.ms)}
          </span>
        ))}
      </div>
    </div>
  );
}

type BarText = "after" | "before" | "inside";

const TEXTS: Record<BarText, string> = { after: "text-faint", before: "text-faint", inside: "font-medium text-surface" };

/** Where the duration of a bar has room. */
function barText(left: number, right: number): BarText {
  if (right <= 72) return "after";
  return left >= 20 ? "before" : "inside";
}

function textPosition(text: BarText, left: number, right: number): React.CSSProperties {
  if (text === "after") return { left: `${right}%` };
  return text === "before" ? { right: `${100 - left}%` } : { left: `${left}%` };
}

interface RowProps {
  entry: EntrySummary;
  top: number;
  scale: TimeScale;
  selected: boolean;
  past: boolean;
  onSelect: (n: number) => void;
}

function Row({ entry, top, scale, selected, past, onSelect }: RowProps) {
  const left = scale.position(entry.start) * 100;
  const right = scale.position(entry.end) * 100;
  const took = entry.end - entry.start;
  const text = barText(left, right);
  return (
    <div
      id={`entry-${entry.n}`}
      role="option"
      aria-selected={selected}
      onClick={() => onSelect(entry.n)}
      className={cx(
        "absolute inset-x-0 flex cursor-pointer overflow-hidden items-center border-b border-line/60",
        selected ? "bg-selected shadow-[inset_2px_0_0_var(--color-accent-line)]" : "hover:bg-hover",
      )}
      style={{ height: ROW, transform: `translateY(${top}px)` }}
    >
      <div className={cx(LABEL_WIDTH, "flex shrink-0 items-center gap-2 px-3 text-[12.5px]")}>
        <span className="w-6 shrink-0 text-right text-[11px] text-faint tabular">{entry.n}</span>
        <span className={cx("shrink-0 font-medium", entry.failed ? "text-bad" : !past && "text-faint")}>{entry.title}</span>
        {entry.childRunId && <CornerDownRight size={13} className="shrink-0 text-active" aria-label="started a child run" />}
        <span className="truncate text-faint">{entry.detail}</span>
      </div>
      <div className="relative mr-3 h-full min-w-0 flex-1">
        {scale.folds.map((fold) => (
          <div
            key={fold.start}
            aria-hidden
            className="absolute inset-y-0 bg-wait-soft/50"
            style={{ left: `${fold.left * 100}%`, width: `${(fold.right - fold.left) * 100}%` }}
          />
        ))}
        <div
          className={cx(
            "absolute top-1/2 h-3 min-w-[3px] -translate-y-1/2 rounded-[3px]",
            entry.failed ? "bg-span-bad" : BARS[entry.lane],
            !past && "opacity-45",
          )}
          style={{ left: `min(${left}%, calc(100% - 3px))`, width: `${Math.max(0, right - left)}%` }}
        />
        {took >= 1 && (
          <span
            className={cx(
              "absolute top-1/2 -translate-y-1/2 px-1.5 text-[11px] whitespace-nowrap tabular",
              text === "inside" && !past ? "font-medium text-text" : TEXTS[text],
            )}
            style={textPosition(text, left, right)}
          >
            {duration(took)}
          </span>
        )}
      </div>
    </div>
  );
}
