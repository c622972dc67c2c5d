import { Check, CircleX, TriangleAlert } from "lucide-react";
import type { Schemas } from "@/api/client";
import { RichText } from "./RichText";

/** The checks of a tool or provider, each with what to do about it. */
export function Checks({ checks }: { checks: Schemas["CheckView"][] }) {
  return (
    <ul className="flex flex-col divide-y">
      {checks.map((check) => (
        <li key={check.check + check.message} className="flex gap-2.5 px-4 py-2.5">
          <CheckIcon status={check.status} />
          <div className="min-w-0">
            <p className="[overflow-wrap:anywhere]">
              <RichText text={check.message} />
            </p>
            {check.remedy && (
              <p className="text-xs text-faint [overflow-wrap:anywhere]">
                <RichText text={check.remedy} />
              </p>
            )}
          </div>
        </li>
      ))}
    </ul>
  );
}

function CheckIcon({ status }: { status: string }) {
  if (status === "ok") return <Check size={16} className="mt-0.5 shrink-0 text-ok" aria-label="ok" />;
  if (status === "warning") return <TriangleAlert size={16} className="mt-0.5 shrink-0 text-warn" aria-label="warning" />;
  return <CircleX size={16} className="mt-0.5 shrink-0 text-bad" aria-label="failed" />;
}
