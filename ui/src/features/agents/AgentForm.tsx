import { Plus, X } from "lucide-react";
import { useState } from "react";
import { Button, IconButton } from "@/components/Button";
import { Field, Input, Select, TextArea } from "@/components/Fields";
import { Card, CardHeader } from "@/components/Page";
import { ErrorNote } from "@/components/States";
import { useModels } from "@/data/server";
import { type AgentForm as Form, type PinForm, suggestRef } from "@/model/agentForm";
import { ToolSelector } from "./ToolSelector";

interface AgentFormProps {
  initial: Form;
  isNew: boolean;
  busy: boolean;
  error: unknown;
  submitLabel: string;
  onSubmit: (form: Form) => void;
}

export function AgentForm({ initial, isNew, busy, error, submitLabel, onSubmit }: AgentFormProps) {
  const [form, setForm] = useState(initial);
  const set = (change: Partial<Form>) => setForm((previous) => ({ ...previous, ...change }));
  const unchanged = JSON.stringify(form) === JSON.stringify(initial);
  const refName = isNew && form.refName === "" ? suggestRef(form.displayName) : form.refName;
  return (
    <form
      className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2"
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit({ ...form, refName });
      }}
    >
      <div className="flex flex-col gap-4">
        <Card label="Instructions">
          <CardHeader title="Instructions" />
          <div className="flex flex-col gap-4 p-4">
            <Field label="Name" required={isNew}>
              {(id) => (
                <Input
                  id={id}
                  value={form.displayName}
                  onChange={(event) => set({ displayName: event.target.value })}
                  placeholder="Sales assistant"
                />
              )}
            </Field>
            {isNew && (
              <Field label="Reference name" hint="Programs use this name. It does not change.">
                {(id, note) => (
                  <Input
                    id={id}
                    aria-describedby={note}
                    value={form.refName}
                    onChange={(event) => set({ refName: event.target.value })}
                    placeholder={refName || "sales-assistant"}
                    className="font-mono"
                  />
                )}
              </Field>
            )}
            <Field label="Description" hint="Other agents and people choose the agent by this text.">
              {(id, note) => (
                <TextArea
                  id={id}
                  aria-describedby={note}
                  rows={2}
                  value={form.description}
                  onChange={(event) => set({ description: event.target.value })}
                />
              )}
            </Field>
            <Field label="System prompt" hint="What the agent is for, and how it should answer. {{name}} inserts a variable of the context.">
              {(id, note) => (
                <TextArea
                  id={id}
                  aria-describedby={note}
                  rows={8}
                  value={form.systemPrompt}
                  onChange={(event) => set({ systemPrompt: event.target.value })}
                />
              )}
            </Field>
            <ModelField value={form.model} onChange={(model) => set({ model })} />
          </div>
        </Card>
        <Card label="Limits">
          <CardHeader title="Limits" />
          <div className="grid gap-4 p-4 sm:grid-cols-2">
            <NumberField label="Model calls" value={form.maxIterations} onChange={(maxIterations) => set({ maxIterations })} />
            <NumberField label="Tool calls" value={form.maxToolCalls} onChange={(maxToolCalls) => set({ maxToolCalls })} />
            <NumberField label="Cost in dollars" value={form.maxCostUsd} onChange={(maxCostUsd) => set({ maxCostUsd })} />
            <NumberField label="Active time in seconds" value={form.timeoutSeconds} onChange={(timeoutSeconds) => set({ timeoutSeconds })} />
          </div>
        </Card>
      </div>
      <div className="flex flex-col gap-4">
        <Card label="Tools">
          <CardHeader title="Tools" count={form.toolRefs.length || undefined} />
          <ToolSelector
            selected={form.toolRefs}
            onChange={(toolRefs) => set({ toolRefs })}
            categories={form.toolCategories}
            onCategories={(toolCategories) => set({ toolCategories })}
          />
        </Card>
        <Card label="Approvals" className="p-4">
          <label className="flex items-start gap-2.5">
            <input
              type="checkbox"
              checked={form.requiresApproval}
              onChange={(event) => set({ requiresApproval: event.target.checked })}
              className="mt-0.5 size-4 accent-accent-line"
            />
            <span>
              <span className="block font-medium">A person approves each write</span>
              <span className="block text-muted">The run waits in the inbox with the exact arguments until someone decides.</span>
            </span>
          </label>
        </Card>
        <Card label="Pins">
          <CardHeader
            title="Pins"
            action={
              <Button
                size="sm"
                onClick={() => set({ pins: [...form.pins, { name: "", tool: form.toolRefs[0] ?? "", strategy: "latest", onMissing: "null" }] })}
              >
                <Plus size={13} aria-hidden /> Pin
              </Button>
            }
          />
          <PinList pins={form.pins} onChange={(pins) => set({ pins })} />
        </Card>
        <ErrorNote error={error} />
        <div>
          <Button
            type="submit"
            variant="primary"
            size="lg"
            busy={busy}
            disabledReason={refName === "" ? "Enter a name" : unchanged && !isNew ? "Nothing was changed" : undefined}
          >
            {submitLabel}
          </Button>
        </div>
      </div>
    </form>
  );
}

function NumberField({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <Field label={label}>
      {(id) => <Input id={id} inputMode="decimal" value={value} onChange={(event) => onChange(event.target.value)} placeholder="server default" />}
    </Field>
  );
}

function ModelField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const models = useModels().data?.items ?? [];
  const byDefault = models.find((model) => model.isDefault);
  const names = models
    .filter((model) => model.provider)
    .map((model) => ({ value: `${model.provider}/${model.name}`, ready: model.credentialConfigured }));
  const isKnown = value === "" || names.some((name) => name.value === value);
  return (
    <Field label="Model" hint="A model without a configured key of its provider cannot answer.">
      {(id, note) => (
        <Select id={id} aria-describedby={note} value={value} onChange={(event) => onChange(event.target.value)}>
          <option value="">{byDefault ? `Default (${byDefault.name})` : "Default of the server"}</option>
          {!isKnown && <option value={value}>{value}</option>}
          {names.map((name) => (
            <option key={name.value} value={name.value}>
              {name.value}
              {name.ready ? "" : " (no key)"}
            </option>
          ))}
        </Select>
      )}
    </Field>
  );
}

function PinList({ pins, onChange }: { pins: PinForm[]; onChange: (pins: PinForm[]) => void }) {
  if (pins.length === 0)
    return (
      <p className="p-4 text-muted">A pin is a named output: the result of a tool that callers read by its name, whatever else the agent did.</p>
    );
  const change = (index: number, next: Partial<PinForm>) => onChange(pins.map((pin, position) => (position === index ? { ...pin, ...next } : pin)));
  return (
    <ul className="flex flex-col divide-y">
      {pins.map((pin, index) => (
        <li key={index} className="grid grid-cols-[1fr_1fr_auto] items-center gap-2 p-4">
          <Input aria-label="Name of the pin" placeholder="name" value={pin.name} onChange={(event) => change(index, { name: event.target.value })} />
          <Input aria-label="Tool of the pin" placeholder="tool" value={pin.tool} onChange={(event) => change(index, { tool: event.target.value })} />
          <IconButton label="Remove the pin" onClick={() => onChange(pins.filter((_, position) => position !== index))}>
            <X size={14} aria-hidden />
          </IconButton>
          <Select
            aria-label="Which call"
            value={pin.strategy}
            onChange={(event) => change(index, { strategy: event.target.value as PinForm["strategy"] })}
          >
            <option value="latest">the latest call</option>
            <option value="first_success">the first success</option>
          </Select>
          <Select
            aria-label="If the call is missing"
            value={pin.onMissing}
            onChange={(event) => change(index, { onMissing: event.target.value as PinForm["onMissing"] })}
          >
            <option value="null">may be missing</option>
            <option value="error">missing is an error</option>
            <option value="stale_last_success">else of an earlier run</option>
          </Select>
        </li>
      ))}
    </ul>
  );
}
