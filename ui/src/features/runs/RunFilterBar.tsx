import { Button } from "@/components/Button";
import { SearchInput } from "@/components/Fields";
import { Filter, FilterChip, NameFilter, StatusFilter, TimeFilter } from "@/components/Filters";
import { useAgents } from "@/data/agents";
import { type RunSearch, isFiltered, parseRunSearch } from "@/model/runFilters";
import { RUN_STATUSES } from "@/model/status";

const KINDS: [string, string][] = [
  ["agent", "Agents"],
  ["tool", "Direct calls"],
  ["agentic-tool", "Agentic tools"],
  ["composite-tool", "Composite tools"],
  ["workflow", "Workflows"],
];

export function RunFilterBar({ search, onChange }: { search: RunSearch; onChange: (search: RunSearch) => void }) {
  const agents = useAgents().data?.items.map((agent) => agent.refName) ?? [];
  const set = (change: Record<string, string | undefined>) => onChange(parseRunSearch({ ...search, ...change }));
  return (
    <div className="flex flex-wrap items-center gap-2 pb-3">
      <SearchInput label="Search names and messages" value={search.text ?? ""} onChange={(text) => set({ text })} className="w-full sm:w-64" />
      <StatusFilter value={search.status} statuses={RUN_STATUSES} onChange={(status) => set({ status })} />
      <NameFilter label="Agent" any="Any agent" value={search.agentRef} names={agents} onChange={(agentRef) => set({ agentRef })} />
      <Filter label="Kind" value={search.kind} onChange={(kind) => set({ kind })}>
        <option value="">Any kind</option>
        {KINDS.map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </Filter>
      <TimeFilter value={search.range} onChange={(range) => set({ range })} />
      {search.calledToolRef && <FilterChip text={`calls ${search.calledToolRef}`} onRemove={() => set({ calledToolRef: undefined })} />}
      {search.parentRunId && <FilterChip text="child runs of one run" onRemove={() => set({ parentRunId: undefined })} />}
      {search.conversationId && <FilterChip text="one conversation" onRemove={() => set({ conversationId: undefined })} />}
      {search.principal && <FilterChip text={`as ${search.principal}`} onRemove={() => set({ principal: undefined })} />}
      {isFiltered(search) && (
        <Button variant="ghost" onClick={() => onChange({})}>
          Clear
        </Button>
      )}
    </div>
  );
}
