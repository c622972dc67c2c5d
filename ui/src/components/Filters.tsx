import { X } from "lucide-react";
import type { ReactNode } from "react";
import { RANGES } from "@/model/runFilters";
import { FAILED_STATUSES, OPEN_STATUSES, type RunStatus, runStatus } from "@/model/status";
import { Select } from "./Fields";

interface FilterProps {
  label: string;
  value: string | undefined;
  onChange: (value: string) => void;
}

export function Filter({ label, value, onChange, children }: FilterProps & { children: ReactNode }) {
  return (
    <Select aria-label={label} value={value ?? ""} onChange={(event) => onChange(event.target.value)} className="max-w-44 !w-auto">
      {children}
    </Select>
  );
}

/** A filter by name. The selected name is an option even if it is unknown, because it may come from a link. */
export function NameFilter({ names, any, ...filter }: FilterProps & { names: string[]; any: string }) {
  return (
    <Filter {...filter}>
      <option value="">{any}</option>
      {filter.value && !names.includes(filter.value) && <option>{filter.value}</option>}
      {names.map((name) => (
        <option key={name}>{name}</option>
      ))}
    </Filter>
  );
}

const GROUPS = [
  { value: OPEN_STATUSES.join(","), label: "Open" },
  { value: FAILED_STATUSES.join(","), label: "Failed" },
];

export function StatusFilter({ statuses, ...filter }: Omit<FilterProps, "label"> & { statuses: readonly RunStatus[] }) {
  const isKnown = !filter.value || GROUPS.some((group) => group.value === filter.value) || (statuses as readonly string[]).includes(filter.value);
  return (
    <Filter label="Status" {...filter}>
      <option value="">Any status</option>
      {GROUPS.map((group) => (
        <option key={group.label} value={group.value}>
          {group.label}
        </option>
      ))}
      {statuses.map((status) => (
        <option key={status} value={status}>
          {runStatus(status).label}
        </option>
      ))}
      {!isKnown && <option value={filter.value}>Several statuses</option>}
    </Filter>
  );
}

export function TimeFilter(filter: Omit<FilterProps, "label">) {
  return (
    <Filter label="Time" {...filter}>
      <option value="">Any time</option>
      {Object.entries(RANGES).map(([value, { label }]) => (
        <option key={value} value={value}>
          {label}
        </option>
      ))}
    </Filter>
  );
}

export function FilterChip({ text, onRemove }: { text: string; onRemove: () => void }) {
  return (
    <span className="inline-flex h-8 items-center gap-1 rounded-md border bg-sunken pr-1 pl-2.5 text-[13px]">
      {text}
      <button
        type="button"
        aria-label={`Remove the filter ${text}`}
        onClick={onRemove}
        className="grid size-6 place-items-center rounded hover:bg-hover"
      >
        <X size={13} aria-hidden />
      </button>
    </span>
  );
}
