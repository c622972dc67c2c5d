import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

/** A link to the agent or tool that a run executes. */
export function SubjectLink({ kind, subject, className, children }: { kind: string; subject: string; className?: string; children: ReactNode }) {
  return (
    <Link to={kind === "agent" ? "/agents/$ref" : "/tools/$ref"} params={{ ref: subject }} className={className}>
      {children}
    </Link>
  );
}
