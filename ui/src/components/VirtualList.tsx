import { cx } from "./cx";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, memo, useEffect, useRef } from "react";

/** The list loads more when this many rows are left below the last visible row. */
const LOAD_AHEAD = 30;

interface VirtualListProps<T> {
  items: T[];
  rowHeight: number;
  label: string;
  header?: ReactNode;
  keyOf: (item: T) => string;
  /** Renders the content of a row. The function must be stable, because a row is rendered again only if it changes. */
  row: (item: T) => ReactNode;
  hasMore: boolean;
  loadMore: () => void;
  /** Whether the list has a frame of its own. */
  framed?: boolean;
}

/** A list that renders only the visible rows and loads more when it is scrolled to its end. */
export function VirtualList<T>({ items, rowHeight, label, header, keyOf, row, hasMore, loadMore, framed = true }: VirtualListProps<T>) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: items.length, getScrollElement: () => scroller.current, estimateSize: () => rowHeight, overscan: 12 });
  const last = virtual.getVirtualItems().at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && last > items.length - LOAD_AHEAD) loadMore();
  }, [hasMore, last, items.length, loadMore]);
  return (
    <section
      aria-label={label}
      className={cx(
        "flex min-h-0 flex-1 flex-col overflow-hidden bg-surface",
        framed && "-mx-4 border-t sm:mx-0 sm:mb-6 sm:rounded-lg sm:border sm:shadow-card",
      )}
    >
      {header}
      <div ref={scroller} tabIndex={0} role="group" aria-label={`${label}, scrollable`} className="min-h-0 flex-1 overflow-y-auto -outline-offset-2">
        <ul className="relative" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const one = items[item.index];
            return one === undefined ? null : <Slot key={keyOf(one)} item={one} row={row} top={item.start} height={rowHeight} />;
          })}
        </ul>
      </div>
    </section>
  );
}

interface SlotProps<T> {
  item: T;
  row: (item: T) => ReactNode;
  top: number;
  height: number;
}

/** The place of a row. Scrolling renders only the rows that appear. */
const Slot = memo(function Slot<T>({ item, row, top, height }: SlotProps<T>) {
  return (
    <li className="absolute inset-x-0 border-b hover:bg-hover" style={{ height, transform: `translateY(${top}px)` }}>
      {row(item)}
    </li>
  );
}) as <T>(props: SlotProps<T>) => ReactNode;

/** The names of the columns above a list. */
export function ListHeader({ columns, names }: { columns: string; names: { name: string; right?: boolean }[] }) {
  return (
    <div aria-hidden className={cx(columns, "hidden h-9 shrink-0 border-b bg-sunken text-xs text-faint md:grid")}>
      {names.map(({ name, right }) => (
        <span key={name} className={right ? "text-right" : undefined}>
          {name}
        </span>
      ))}
    </div>
  );
}
