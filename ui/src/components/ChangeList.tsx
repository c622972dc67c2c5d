import { cx } from "./cx";

interface ChangeListProps {
  changes: { path: string; before?: unknown; after?: unknown }[];
  /** Whether the list is inside of a frame. */
  nested?: boolean;
}

/** Changed fields, each with its value before and after. An absent value is undefined. */
export function ChangeList({ changes, nested }: ChangeListProps) {
  return (
    <ul className={cx("divide-y", nested ? "border-t" : "rounded-md border")}>
      {changes.map((change) => (
        <li key={change.path} className="px-3 py-2">
          <code className="font-mono text-xs text-muted">{change.path}</code>
          {change.before !== undefined && <Value className="text-bad" sign="−" value={change.before} />}
          {change.after !== undefined && <Value className="text-ok" sign="+" value={change.after} />}
        </li>
      ))}
    </ul>
  );
}

function Value({ className, sign, value }: { className: string; sign: string; value: unknown }) {
  return (
    <p className={cx(className, "font-mono text-xs whitespace-pre-wrap [overflow-wrap:anywhere]")}>
      {sign} {typeof value === "string" ? value : JSON.stringify(value)}
    </p>
  );
}
