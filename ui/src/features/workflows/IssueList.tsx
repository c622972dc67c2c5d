import { CircleX, TriangleAlert } from "lucide-react";
import { cx } from "@/components/cx";
import { RichText } from "@/components/RichText";
import type { Issue } from "@/model/workflow/yaml";

interface IssueListProps {
  issues: Issue[];
  /** Goes to a line of the text. Without it, there is no text. */
  onLine?: (line: number) => void;
  className?: string;
}

/** The errors and warnings of a check, each with its place. */
export function IssueList({ issues, onLine, className }: IssueListProps) {
  return (
    <ul aria-label="Problems" className={cx("divide-y rounded-md border bg-surface", className)}>
      {issues.map((issue, index) => (
        <li key={index} className="flex gap-2.5 px-3 py-2">
          {issue.severity === "error" ? (
            <CircleX size={15} className="mt-0.5 shrink-0 text-bad" aria-label="error" />
          ) : (
            <TriangleAlert size={15} className="mt-0.5 shrink-0 text-warn" aria-label="warning" />
          )}
          <div className="min-w-0 flex-1">
            <p className="[overflow-wrap:anywhere]">
              <RichText text={issue.message} />
            </p>
            {issue.hint && (
              <p className="text-xs text-muted [overflow-wrap:anywhere]">
                <RichText text={issue.hint} />
              </p>
            )}
            <p className="mt-0.5 font-mono text-[11.5px] text-faint [overflow-wrap:anywhere]">
              {issue.path} {issue.code}
            </p>
          </div>
          {issue.line && onLine && (
            <button
              type="button"
              onClick={() => onLine(issue.line ?? 1)}
              className="shrink-0 self-start text-xs text-muted underline underline-offset-2"
            >
              Line {issue.line}
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}
