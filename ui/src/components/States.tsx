import { CloudOff, KeyRound, type LucideIcon, RefreshCw, SearchX, ShieldX, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { ApiError } from "@/api/client";
import { Button } from "./Button";
import { cx } from "./cx";
import { RichText } from "./RichText";

/** What a screen shows if it has nothing to show: why, and what to do next. */
export function Empty({
  icon: Icon,
  title,
  children,
  action,
  compact,
}: {
  icon: LucideIcon;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
  compact?: boolean;
}) {
  return (
    <div className={cx("mx-auto flex max-w-md flex-col items-center text-center", compact ? "px-6 py-8" : "px-6 py-16")}>
      <span className="mb-3 grid size-10 place-items-center rounded-lg border bg-surface text-faint shadow-card">
        <Icon size={19} aria-hidden />
      </span>
      <h3 className="font-semibold">{title}</h3>
      {children && <div className="mt-1 text-muted">{children}</div>}
      {action && <div className="mt-4 flex flex-wrap justify-center gap-2">{action}</div>}
    </div>
  );
}

export function NoMatch({ onClear }: { onClear: () => void }) {
  return (
    <Empty icon={SearchX} title="Nothing matches these filters" action={<Button onClick={onClear}>Clear the filters</Button>}>
      Remove a filter or search for another text.
    </Empty>
  );
}

/** What to do about an error, by its status and code. */
function adviceFor(error: ApiError): { icon: LucideIcon; title: string; advice: string } {
  if (error.status === 0) return { icon: CloudOff, title: "The server did not respond", advice: "Check that it is running, then try again." };
  if (error.status === 401) return { icon: KeyRound, title: "You are logged out", advice: "Log in again to continue." };
  if (error.status === 403) return { icon: ShieldX, title: "You may not do this", advice: "Ask an administrator for the permission." };
  if (error.status === 404)
    return { icon: SearchX, title: "Not found", advice: "It may have been deleted, or it belongs to another realm or principal." };
  if (error.status === 429) return { icon: TriangleAlert, title: "Too many requests", advice: "Wait a moment, then try again." };
  return { icon: TriangleAlert, title: error.title, advice: "" };
}

/** An error that replaces the content of a screen or a part of it. */
export function ErrorState({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const known = error instanceof ApiError ? error : new ApiError(500, undefined, error instanceof Error ? error.message : String(error));
  const { icon, title, advice } = adviceFor(known);
  return (
    <div role="alert">
      <Empty
        icon={icon}
        title={title}
        action={
          onRetry && (
            <Button onClick={onRetry}>
              <RefreshCw size={14} aria-hidden /> Try again
            </Button>
          )
        }
      >
        <p>
          <RichText text={known.message} />
        </p>
        {advice && <p className="mt-1">{advice}</p>}
        <ErrorCode error={known} />
      </Empty>
    </div>
  );
}

/** An error beside the action that caused it. */
export function ErrorNote({ error }: { error: unknown }) {
  if (!error) return null;
  const known = error instanceof ApiError ? error : undefined;
  return (
    <div role="alert" className="flex gap-2 rounded-md bg-bad-soft px-3 py-2 text-[13px] text-bad">
      <TriangleAlert size={15} className="mt-0.5 shrink-0" aria-hidden />
      <div className="min-w-0">
        <p className="[overflow-wrap:anywhere]">
          <RichText text={error instanceof Error ? error.message : String(error)} />
        </p>
        {known?.fields.length ? (
          <ul className="mt-1 list-disc pl-4">
            {known.fields.map((field) => (
              <li key={field.field + field.message}>
                {field.field && <code className="font-mono text-xs">{field.field}</code>} {field.message}
              </li>
            ))}
          </ul>
        ) : null}
        {known && <ErrorCode error={known} />}
      </div>
    </div>
  );
}

function ErrorCode({ error }: { error: ApiError }) {
  if (error.code === "unknown") return null;
  return (
    <a href={`/errors/${error.code}`} target="_blank" rel="noreferrer" className="mt-1 inline-block text-xs underline underline-offset-2">
      About the error {error.code}
    </a>
  );
}

export function Loading({ rows = 5, label = "Loading" }: { rows?: number; label?: string }) {
  return (
    <div role="status" aria-label={label} className="flex flex-col gap-3 p-4">
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} className="h-4 animate-pulse rounded bg-hover odd:w-11/12 even:w-3/4" />
      ))}
    </div>
  );
}

export function Warnings({ items }: { items: string[] | undefined }) {
  if (!items?.length) return null;
  return (
    <ul className="mb-4 flex flex-col gap-1 rounded-md bg-warn-soft px-3 py-2 text-[13px] text-warn">
      {items.map((item) => (
        <li key={item} className="flex gap-2">
          <TriangleAlert size={15} className="mt-0.5 shrink-0" aria-hidden />
          {item}
        </li>
      ))}
    </ul>
  );
}
