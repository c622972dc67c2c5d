import { useEffect, useMemo, useRef } from "react";
import { CodeInput } from "@/components/Fields";
import { cx } from "@/components/cx";
import { type Issue, issuesByLine, lineRange } from "@/model/workflow/yaml";
import { IssueList } from "./IssueList";

/** The height of a line, which the editor and its line numbers share. */
const LINE = 19;
const MAX_ROWS = 32;

interface YamlEditorProps {
  label: string;
  text: string;
  onChange: (text: string) => void;
  issues: Issue[];
}

/** A text with line numbers, in which the lines with problems are marked. */
export function YamlEditor({ label, text, onChange, issues }: YamlEditorProps) {
  const editor = useRef<HTMLTextAreaElement>(null);
  const numbers = useRef<HTMLDivElement>(null);
  const lines = text.split("\n").length;
  const marked = useMemo(() => issuesByLine(issues), [issues]);
  const follow = () => {
    if (numbers.current && editor.current) numbers.current.style.transform = `translateY(${-editor.current.scrollTop}px)`;
  };
  useEffect(follow, [text]);

  function goTo(line: number) {
    const field = editor.current;
    if (!field) return;
    field.focus();
    field.setSelectionRange(...lineRange(text, line));
    field.scrollTop = Math.max(0, (line - 6) * LINE);
  }

  return (
    <div className={cx("grid grid-cols-1 items-start gap-3", issues.length > 0 && "lg:grid-cols-[minmax(0,1fr)_21rem]")}>
      <div className="relative flex overflow-hidden rounded-md border border-line-strong bg-surface shadow-card">
        <div aria-hidden className="relative w-12 shrink-0 overflow-hidden border-r bg-sunken">
          <div
            ref={numbers}
            className="absolute inset-x-0 top-0 py-1.5 text-right font-mono text-[11px] text-faint"
            style={{ lineHeight: `${LINE}px` }}
          >
            {Array.from({ length: lines }, (_, index) => {
              const issue = marked.get(index + 1);
              return (
                <div key={index} title={issue?.message} className={cx("pr-2", issue && (issue.severity === "error" ? MARKS.error : MARKS.warning))}>
                  {index + 1}
                </div>
              );
            })}
          </div>
        </div>
        <CodeInput
          ref={editor}
          aria-label={label}
          aria-invalid={issues.some((issue) => issue.severity === "error")}
          wrap="off"
          rows={Math.min(MAX_ROWS, Math.max(12, lines + 1))}
          value={text}
          onChange={(event) => onChange(event.target.value)}
          onScroll={follow}
          className="!rounded-none !border-0 !shadow-none"
          style={{ lineHeight: `${LINE}px` }}
        />
      </div>
      {issues.length > 0 && <IssueList issues={issues} onLine={goTo} className="lg:sticky lg:top-0" />}
    </div>
  );
}

const MARKS = { error: "bg-bad-soft font-semibold text-bad", warning: "bg-warn-soft font-semibold text-warn" };
