import { X } from "lucide-react";
import { Button } from "@/components/Button";
import { SearchInput, Select } from "@/components/Fields";
import { useAgents } from "@/data/agents";
import { RANGES, type RunSearch, isFiltered, parseRunSearch } from "@/model/runFilters";
import { FAILED_STATUSES, OPEN_STATUSES, RUN_STATUSES, runStatus } from "@/model/status";

const GROUPS = [
  { value: OPEN_STATUSES.join(","), label: "Open" },
  { value: FAILED_STATUSES.join(","), label: "Failed" },
];

const KINDS: [string, string][] = [
  ["agent", "Agents"],
  ["tool", "Direct calls"],
  ["agentic-tool", "Agentic tools"],
  ["composite-tool", "Composite tools"],
];

export function RunFilterBar({ search, onChange }: { search: RunSearch; onChange: (search: RunSearch) => void }) {
  const agents = useAgents().data?.items ?? [];
  const set = (change: Record<string, string | undefined>) => onChange(parseRunSearch({ ...search, ...change }));
  const known = agents.some((agent) => agent.refName === search.agentRef);
  const isKnownStatus =
    !search.status || GROUPS.some((group) => group.value === search.status) || (RUN_STATUSES as readonly string[]).includes(search.status);
  return (
    <div className="flex flex-wrap items-center gap-2 pb-3">
      <SearchInput label="Search names and messages" value={search.text ?? ""} onChange={(text) => set({ text })} className="w-full sm:w-64" />
      <Filter label="Status" value={search.status} onChange={(status) => set({ status })}>
        <option value="">Any status</option>
        {GROUPS.map((group) => (
          <option key={group.label} value={group.value}>
            {group.label}
          </option>
        ))}
        {RUN_STATUSES.map((status) => (
          <option key={status} value={status}>
            {runStatus(status).label}
          </option>
        ))}
        {!isKnownStatus && <option value={search.status}>Several statuses</option>}
      </Filter>
      <Filter label="Agent" value={search.agentRef} onChange={(agentRef) => set({ agentRef })}>
        <option value="">Any agent</option>
        {search.agentRef && !known && <option value={search.agentRef}>{search.agentRef}</option>}
        {agents.map((agent) => (
          <option key={agent.refName} value={agent.refName}>
            {agent.refName}
          </option>
        ))}
      </Filter>
      <Filter label="Kind" value={search.kind} onChange={(kind) => set({ kind })}>
        <option value="">Any kind</option>
        {KINDS.map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </Filter>
      <Filter label="Time" value={search.range} onChange={(range) => set({ range })}>
        <option value="">Any time</option>
        {Object.entries(RANGES).map(([value, { label }]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </Filter>
      {search.calledToolRef && <Chip text={`calls ${search.calledToolRef}`} onRemove={() => set({ calledToolRef: undefined })} />}
      {search.parentRunId && <Chip text="child runs of one run" onRemove={() => set({ parentRunId: undefined })} />}
      {search.conversationId && <Chip text="one conversation" onRemove={() => set({ conversationId: undefined })} />}
      {search.principal && <Chip text={`as ${search.principal}`} onRemove={() => set({ principal: undefined })} />}
      {isFiltered(search) && (
        <Button variant="ghost" onClick={() => onChange({})}>
          Clear
        </Button>
      )}
    </div>
  );
}

function Filter({
  label,
  value,
  onChange,
  children,
}: {
  label: string;
  value: string | undefined;
  onChange: (value: string) => void;
  children: React.ReactNode;
}) {
  return (
    <Select aria-label={label} value={value ?? ""} onChange={(event) => onChange(event.target.value)} className="max-w-44 !w-auto">
      {children}
    </Select>
  );
}

function Chip({ text, onRemove }: { text: string; onRemove: () => void }) {
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
