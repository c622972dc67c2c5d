import { ArrowLeft } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";

interface SplitProps {
  list: ReactNode;
  detail: ReactNode;
  /** On a phone, either the list or the detail is shown. */
  showDetail: boolean;
  onBack: () => void;
}

/** A list beside the detail of its selected item. */
export function Split({ list, detail, showDetail, onBack }: SplitProps) {
  return (
    <div className="-mx-4 flex min-h-0 flex-1 border-t sm:-mx-7 lg:mx-0 lg:mb-6 lg:overflow-hidden lg:rounded-lg lg:border lg:bg-surface lg:shadow-card">
      <div className={cx("w-full shrink-0 flex-col overflow-y-auto bg-surface lg:flex lg:w-[22rem] lg:border-r", showDetail ? "hidden" : "flex")}>
        {list}
      </div>
      <div className={cx("min-w-0 flex-1 flex-col overflow-y-auto bg-surface lg:flex", showDetail ? "flex" : "hidden")}>
        <div className="border-b px-2 py-1.5 lg:hidden">
          <Button variant="ghost" size="sm" onClick={onBack}>
            <ArrowLeft size={14} aria-hidden /> Back to the list
          </Button>
        </div>
        {detail}
      </div>
    </div>
  );
}

interface ListItemProps {
  selected: boolean;
  onSelect: () => void;
  title: ReactNode;
  aside: ReactNode;
  subtitle: ReactNode;
  note?: ReactNode;
  leading?: ReactNode;
}

export function ListItem({ selected, onSelect, title, aside, subtitle, note, leading }: ListItemProps) {
  return (
    <li className={cx("flex border-b", selected ? "bg-selected" : "hover:bg-hover")}>
      {leading && <div className="grid place-items-center pl-4">{leading}</div>}
      <button type="button" onClick={onSelect} aria-current={selected} className="min-w-0 flex-1 px-4 py-3 text-left -outline-offset-2">
        <span className="flex items-baseline justify-between gap-3">
          <span className="truncate font-medium">{title}</span>
          <span className="shrink-0 text-xs text-faint tabular">{aside}</span>
        </span>
        <span className="mt-0.5 block truncate text-muted">{subtitle}</span>
        {note && <span className="mt-0.5 block truncate font-mono text-[11.5px] text-faint">{note}</span>}
      </button>
    </li>
  );
}
