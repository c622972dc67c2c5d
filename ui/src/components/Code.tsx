import { useMemo } from "react";
import { CopyButton } from "./Copy";
import { cx } from "./cx";
import { type JsonToken, tokenizeJson } from "@/model/json";

const TOKENS: Record<JsonToken["kind"], string> = {
  key: "text-accent",
  string: "text-ok",
  number: "text-active",
  word: "text-wait",
  plain: "",
};

/** A longer text is shown without colours, because each coloured token is an element. */
const MAX_COLOURED = 20_000;

/** A JSON value with colours. */
export function JsonView({ value, className, label = "JSON" }: { value: unknown; className?: string; label?: string }) {
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? "null", [value]);
  const tokens = useMemo(() => (text.length > MAX_COLOURED ? [{ kind: "plain" as const, text }] : tokenizeJson(text)), [text]);
  return (
    <CodeFrame text={text} label={label} className={className}>
      {tokens.map((token, index) => (
        <span key={index} className={TOKENS[token.kind]}>
          {token.text}
        </span>
      ))}
    </CodeFrame>
  );
}

export function CodeBlock({ text, className, label = "Text" }: { text: string; className?: string; label?: string }) {
  return (
    <CodeFrame text={text} label={label} className={className}>
      {text}
    </CodeFrame>
  );
}

function CodeFrame({ text, label, className, children }: { text: string; label: string; className?: string | undefined; children: React.ReactNode }) {
  return (
    <div className={cx("group relative min-w-0 rounded-md border bg-sunken", className)}>
      <pre
        aria-label={label}
        tabIndex={0}
        className="max-h-[inherit] overflow-auto p-3 font-mono text-xs leading-[1.6] whitespace-pre-wrap [overflow-wrap:anywhere]"
      >
        {children}
      </pre>
      <div className="absolute top-1 right-1 rounded-md bg-sunken opacity-0 group-focus-within:opacity-100 group-hover:opacity-100">
        <CopyButton text={text} label={`Copy ${label}`} />
      </div>
    </div>
  );
}
