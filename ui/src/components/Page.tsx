import { Link } from "@tanstack/react-router";
import { ChevronRight } from "lucide-react";
import type { ReactNode } from "react";
import { useEffect } from "react";
import { cx } from "./cx";
import { RichText } from "./RichText";

interface PageProps {
  title: string;
  /** The title of the browser's tab, if it differs. */
  documentTitle?: string;
  heading?: ReactNode;
  parent?: { to: string; label: string };
  description?: ReactNode;
  actions?: ReactNode;
  /** Whether the content scrolls by itself and takes the whole height. */
  fill?: boolean;
  wide?: boolean;
  children: ReactNode;
}

/** The frame of every screen: its heading, its actions and its content. */
export function Page({ title, documentTitle, heading, parent, description, actions, fill, wide, children }: PageProps) {
  useEffect(() => {
    document.title = `${documentTitle ?? title} · Toolwright`;
  }, [documentTitle, title]);
  return (
    <main className={cx("flex min-w-0 flex-1 flex-col", fill ? "h-full min-h-0" : "overflow-y-auto")} id="main" tabIndex={-1}>
      <div
        className={cx(
          "mx-auto flex w-full flex-col px-4 pt-4 sm:px-7 sm:pt-6",
          wide || fill ? "max-w-[1680px]" : "max-w-[1240px]",
          fill && "h-full min-h-0",
        )}
      >
        <header className="flex flex-wrap items-start justify-between gap-x-6 gap-y-3 pb-4">
          <div className="min-w-0">
            {parent && (
              <nav aria-label="Breadcrumb" className="mb-0.5 flex items-center gap-0.5 text-xs text-faint">
                <Link to={parent.to} className="hover:text-text hover:underline">
                  {parent.label}
                </Link>
                <ChevronRight size={12} aria-hidden />
              </nav>
            )}
            <div className="flex min-w-0 flex-wrap items-center gap-x-3 gap-y-1">
              <h1 className="min-w-0 truncate text-lg font-semibold tracking-[-0.012em] sm:text-xl">{title}</h1>
              {heading}
            </div>
            {description && (
              <p className="mt-1 max-w-[72ch] text-muted">{typeof description === "string" ? <RichText text={description} /> : description}</p>
            )}
          </div>
          {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
        </header>
        {children}
        {!fill && <div className="h-10 shrink-0" />}
      </div>
    </main>
  );
}

export function Card({ children, className, label }: { children: ReactNode; className?: string; label?: string }) {
  return (
    <section aria-label={label} className={cx("rounded-lg border bg-surface shadow-card", className)}>
      {children}
    </section>
  );
}

export function CardHeader({ title, count, action }: { title: string; count?: ReactNode; action?: ReactNode }) {
  return (
    <div className="flex h-11 items-center justify-between gap-3 border-b px-4">
      <h2 className="flex items-center gap-2 text-[13px] font-semibold">
        {title}
        {count !== undefined && <span className="font-normal text-faint tabular">{count}</span>}
      </h2>
      {action}
    </div>
  );
}
