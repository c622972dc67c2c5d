import { Search } from "lucide-react";
import { type ComponentProps, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { cx } from "./cx";

const CONTROL =
  "w-full rounded-md border border-line-strong bg-surface px-2.5 text-[13px] shadow-card outline-offset-0 hover:border-faint disabled:bg-sunken disabled:text-faint";

export function Input({ className, ...rest }: ComponentProps<"input">) {
  return <input className={cx(CONTROL, "h-8", className)} {...rest} />;
}

export function TextArea({ className, ...rest }: ComponentProps<"textarea">) {
  return <textarea className={cx(CONTROL, "py-1.5 leading-normal", className)} {...rest} />;
}

export function Select({ className, ...rest }: ComponentProps<"select">) {
  return <select className={cx(CONTROL, "h-8 pr-7", className)} {...rest} />;
}

/** A text area for JSON or code. */
export function CodeInput({ className, ...rest }: ComponentProps<"textarea">) {
  return <TextArea spellCheck={false} autoCapitalize="off" className={cx("font-mono text-xs leading-[1.6]", className)} {...rest} />;
}

/** A label, a control, and what is wrong with its value. */
export function Field({
  label,
  hint,
  error,
  required,
  children,
}: {
  label: ReactNode;
  hint?: ReactNode;
  error?: string | undefined;
  required?: boolean;
  children: (id: string, describedBy: string | undefined) => ReactNode;
}) {
  const id = useId();
  const note = error ?? hint;
  return (
    <div className="flex flex-col gap-1">
      <label htmlFor={id} className="text-[13px] font-medium">
        {label}
        {required && (
          <span aria-hidden className="ml-1 font-normal text-faint" title="required">
            *
          </span>
        )}
      </label>
      {children(id, note ? `${id}-note` : undefined)}
      {note && (
        <p id={`${id}-note`} className={cx("text-xs", error ? "text-bad" : "text-faint")}>
          {note}
        </p>
      )}
    </div>
  );
}

/** A search field that reports its text after a pause in typing. */
export function SearchInput({
  value,
  onChange,
  label,
  className,
}: {
  value: string;
  onChange: (value: string) => void;
  label: string;
  className?: string;
}) {
  const [text, setText] = useState(value);
  const reported = useRef(value);
  useEffect(() => {
    if (value !== reported.current) {
      reported.current = value;
      setText(value);
    }
  }, [value]);
  useEffect(() => {
    if (text === reported.current) return;
    const timer = setTimeout(() => {
      reported.current = text;
      onChange(text);
    }, 200);
    return () => clearTimeout(timer);
  }, [text, onChange]);
  return (
    <div className={cx("relative", className)}>
      <Search size={14} aria-hidden className="pointer-events-none absolute top-1/2 left-2.5 -translate-y-1/2 text-faint" />
      <Input type="search" aria-label={label} placeholder={label} value={text} onChange={(event) => setText(event.target.value)} className="pl-8" />
    </div>
  );
}

/** A few exclusive choices side by side. */
export function Segments<T extends string>({
  value,
  onChange,
  options,
  label,
}: {
  value: T;
  onChange: (value: T) => void;
  options: { value: T; label: ReactNode }[];
  label: string;
}) {
  return (
    <div role="group" aria-label={label} className="inline-flex rounded-md border bg-sunken p-0.5">
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          aria-pressed={option.value === value}
          onClick={() => onChange(option.value)}
          className={cx(
            "h-7 rounded-[5px] px-2.5 text-[12.5px] font-medium",
            option.value === value ? "bg-surface text-text shadow-card ring-1 ring-line" : "text-muted hover:text-text",
          )}
        >
          {option.label}
        </button>
      ))}
    </div>
  );
}

/** A name and its value, in a list of facts. */
export function Facts({ items, columns = 1 }: { items: [string, ReactNode][]; columns?: 1 | 2 }) {
  const shown = items.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return (
    <dl className={cx("grid gap-x-8 gap-y-2", columns === 2 && "sm:grid-cols-2")}>
      {shown.map(([name, value]) => (
        <div key={name} className="flex min-w-0 items-baseline gap-3">
          <dt className="w-32 shrink-0 text-faint">{name}</dt>
          <dd className="min-w-0 [overflow-wrap:anywhere]">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
