import { X } from "lucide-react";
import { useMemo, useState } from "react";
import { Badge } from "@/components/Badge";
import { SearchInput } from "@/components/Fields";
import { Loading } from "@/components/States";
import { useTools } from "@/data/tools";
import { firstLine } from "@/model/format";

interface ToolSelectorProps {
  selected: string[];
  onChange: (selected: string[]) => void;
  categories: string[];
  onCategories: (categories: string[]) => void;
}

/** Chooses tools by name, or whole categories, whose tools are added also later. */
export function ToolSelector({ selected, onChange, categories, onCategories }: ToolSelectorProps) {
  const [text, setText] = useState("");
  const query = useTools({ ...(text && { text }) });
  const tools = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  const known = useMemo(() => [...new Set(tools.map((tool) => tool.category).filter((category) => category != null))].sort(), [tools]);
  const offered = known.filter((category) => !categories.includes(category));
  const toggle = (name: string) => onChange(selected.includes(name) ? selected.filter((one) => one !== name) : [...selected, name]);
  return (
    <div className="flex flex-col gap-3 p-4">
      {selected.length + categories.length > 0 && (
        <ul className="flex flex-wrap gap-1.5">
          {categories.map((category) => (
            <Chip
              key={`category ${category}`}
              text={`category ${category}`}
              onRemove={() => onCategories(categories.filter((one) => one !== category))}
            />
          ))}
          {selected.map((name) => (
            <Chip key={name} text={name} onRemove={() => toggle(name)} />
          ))}
        </ul>
      )}
      <SearchInput label="Find tools" value={text} onChange={setText} />
      <div className="h-80 overflow-y-auto rounded-md border" tabIndex={0} role="group" aria-label="Tools to choose from">
        {query.isPending && <Loading rows={5} />}
        {offered.length > 0 && !text && (
          <div className="flex flex-wrap items-center gap-1.5 border-b bg-sunken px-3 py-2">
            <span className="text-xs text-faint">Whole categories:</span>
            {offered.map((category) => (
              <button
                key={category}
                type="button"
                onClick={() => onCategories([...categories, category])}
                className="rounded border bg-surface px-1.5 text-xs hover:bg-hover"
              >
                + {category}
              </button>
            ))}
          </div>
        )}
        <ul className="divide-y">
          {tools.map((tool) => {
            const included = tool.category != null && categories.includes(tool.category);
            return (
              <li key={tool.id}>
                <label className="flex items-start gap-3 px-3 py-2 hover:bg-hover">
                  <input
                    type="checkbox"
                    checked={included || selected.includes(tool.slug)}
                    disabled={included}
                    onChange={() => toggle(tool.slug)}
                    className="mt-0.5 size-4 accent-accent-line"
                  />
                  <span className="min-w-0 flex-1">
                    <span className="flex items-center gap-2">
                      <span className="truncate font-medium">{tool.slug}</span>
                      {included && <Badge>by category</Badge>}
                    </span>
                    <span className="block truncate text-xs text-faint">{firstLine(tool.description ?? "")}</span>
                  </span>
                </label>
              </li>
            );
          })}
        </ul>
      </div>
    </div>
  );
}

function Chip({ text, onRemove }: { text: string; onRemove: () => void }) {
  return (
    <li className="inline-flex h-6 items-center gap-0.5 rounded border bg-sunken pl-2 text-xs">
      {text}
      <button type="button" aria-label={`Remove ${text}`} onClick={onRemove} className="grid size-6 place-items-center rounded hover:bg-hover">
        <X size={11} aria-hidden />
      </button>
    </li>
  );
}
