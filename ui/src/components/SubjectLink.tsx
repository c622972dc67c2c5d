import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

/** A link to the agent, tool or workflow that a run executes. */
export function SubjectLink({ kind, subject, className, children }: { kind: string; subject: string; className?: string; children: ReactNode }) {
  return (
    <Link
      to={kind === "agent" ? "/agents/$ref" : kind === "workflow" ? "/workflows/$ref" : "/tools/$ref"}
      params={{ ref: subject }}
      className={className}
    >
      {children}
    </Link>
  );
}
