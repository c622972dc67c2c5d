import { getRouteApi } from "@tanstack/react-router";
import { Undo2, Zap } from "lucide-react";
import { useCallback, useEffect, useState } from "react";
import { OutcomeBadge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Input, Segments } from "@/components/Fields";
import { Page } from "@/components/Page";
import { QueryList, useItems } from "@/components/QueryList";
import { Empty } from "@/components/States";
import { Time } from "@/components/Time";
import { type Effect, useEffects } from "@/data/effects";
import { OUTCOMES, parseEffectSearch } from "@/model/effectFilters";
import { preview } from "@/model/entries";
import { outcome } from "@/model/status";
import { undoObstacle } from "@/model/undo";
import { EffectDialog } from "./EffectDialog";
import { UndoSelectedDialog } from "./UndoSelectedDialog";

const route = getRouteApi("/shell/effects");
const ROW_HEIGHT = 53;
const COLUMNS =
  "grid grid-cols-[1.25rem_minmax(0,1fr)_auto] items-center gap-x-3 px-4 md:grid-cols-[1.25rem_minmax(0,1.1fr)_minmax(0,1.4fr)_7.5rem_8rem_6rem]";

/** Every write to the outside world, across all runs. */
export function Effects() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useEffects(search);
  const effects = useItems(query);
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const [opened, setOpened] = useState<string>();
  const [undoing, setUndoing] = useState(false);
  const selection = effects.filter((effect) => marked.has(effect.id));
  const open = effects.find((effect) => effect.id === opened);
  const filtered = Object.keys(search).length > 0;
  const set = (change: Record<string, string>) => void navigate({ search: parseEffectSearch({ ...search, ...change }), replace: true });

  const toggle = useCallback((id: string) => {
    setMarked((previous) => {
      const next = new Set(previous);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  }, []);
  const row = useCallback(
    (effect: Effect) => <Row effect={effect} marked={marked.has(effect.id)} onMark={toggle} onOpen={setOpened} />,
    [marked, toggle],
  );

  return (
    <Page
      fill
      title="Effects"
      description="Every write to the outside world, across all runs."
      actions={
        selection.length > 0 && (
          <Button variant="primary" onClick={() => setUndoing(true)}>
            <Undo2 size={14} aria-hidden /> Undo {selection.length}…
          </Button>
        )
      }
    >
      <div className="flex flex-wrap items-center gap-2 pb-3">
        <div className="max-w-full overflow-x-auto">
          <Segments
            label="Outcome"
            value={search.outcome ?? ""}
            onChange={(value) => set({ outcome: value })}
            options={[{ value: "", label: "All" }, ...OUTCOMES.map((name) => ({ value: name as string, label: outcome(name).label }))]}
          />
        </div>
        <ToolFilter value={search.toolRef ?? ""} onChange={(toolRef) => set({ toolRef })} />
        {filtered && (
          <Button variant="ghost" onClick={() => void navigate({ search: {} })}>
            Clear
          </Button>
        )}
      </div>
      <QueryList
        query={query}
        items={effects}
        label="Effects"
        rowHeight={ROW_HEIGHT}
        columns={COLUMNS}
        header={HEADER}
        keyOf={keyOf}
        row={row}
        filtered={filtered}
        onClear={() => void navigate({ search: {} })}
        empty={<NoEffects />}
      />
      {open && <EffectDialog effect={open} onClose={() => setOpened(undefined)} />}
      {undoing && (
        <UndoSelectedDialog
          effects={selection}
          onClose={() => {
            setUndoing(false);
            setMarked(new Set());
          }}
        />
      )}
    </Page>
  );
}

function NoEffects() {
  return (
    <Empty icon={Zap} title="No write yet">
      When an agent, a workflow or a direct call changes something in another system, the exact write appears here. Select writes to undo them together.
    </Empty>
  );
}

/** The filter takes effect when the name is complete, because the API compares whole names. */
function ToolFilter({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onChange(text.trim());
      }}
    >
      <Input
        aria-label="Name of a tool, then Enter"
        placeholder="Name of a tool"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onBlur={() => text.trim() !== value && onChange(text.trim())}
        className="w-60"
      />
    </form>
  );
}

const HEADER = [
  { name: "" },
  { name: "Tool and agent" },
  { name: "Arguments" },
  { name: "Outcome" },
  { name: "Reversible" },
  { name: "When", right: true },
];

interface RowProps {
  effect: Effect;
  marked: boolean;
  onMark: (id: string) => void;
  onOpen: (id: string) => void;
}

const keyOf = (effect: Effect) => effect.id;

function Row({ effect, marked, onMark, onOpen }: RowProps) {
  const obstacle = undoObstacle(effect);
  return (
    <div className={cx(COLUMNS, "relative h-full", marked && "bg-selected")}>
      <input
        type="checkbox"
        aria-label={`Select ${effect.toolRef}`}
        title={obstacle}
        disabled={obstacle !== undefined}
        checked={marked}
        onChange={() => onMark(effect.id)}
        className="relative z-10 size-4 accent-accent-line disabled:opacity-40"
      />
      <button type="button" onClick={() => onOpen(effect.id)} className="min-w-0 text-left -outline-offset-2 before:absolute before:inset-0">
        <span className="block truncate font-medium">{effect.toolRef}</span>
        <span className="block truncate text-xs text-faint">{effect.agentRef ?? "direct call or workflow"}</span>
      </button>
      <span className="hidden truncate font-mono text-xs text-muted md:block">{preview(effect.input)}</span>
      <span>
        <OutcomeBadge name={effect.outcome} />
      </span>
      <span className="hidden text-xs text-muted md:block">{effect.reversible ? "Yes" : "No"}</span>
      <Time at={effect.endedAt} className="hidden text-right text-xs text-faint md:block" />
    </div>
  );
}
