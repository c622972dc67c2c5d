import { Eye, PenLine, Sigma } from "lucide-react";
import type { ReactNode } from "react";
import { Badge } from "./Badge";
import { cx } from "./cx";

/** A short piece of code or a key in running text. */
export function Code({ children, className }: { children: ReactNode; className?: string }) {
  return <code className={cx("rounded border bg-sunken px-1 font-mono text-[11.5px] text-muted", className)}>{children}</code>;
}

export function SideEffectsBadge({ value }: { value: string | null | undefined }) {
  if (value === "writes") {
    return (
      <Badge tone="warn">
        <PenLine size={12} aria-hidden /> Writes
      </Badge>
    );
  }
  if (value === "reads") {
    return (
      <Badge>
        <Eye size={12} aria-hidden /> Reads
      </Badge>
    );
  }
  return (
    <Badge>
      <Sigma size={12} aria-hidden /> Computes
    </Badge>
  );
}
