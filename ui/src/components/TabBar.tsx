import { Tabs } from "radix-ui";
import { type ReactNode, useEffect, useRef } from "react";

export interface Tab {
  value: string;
  label: ReactNode;
  content: ReactNode;
}

/** Tabs whose content is mounted when it is shown. */
export function TabBar({ value, onChange, tabs, label }: { value: string; onChange: (value: string) => void; tabs: Tab[]; label: string }) {
  const list = useRef<HTMLDivElement>(null);
  // On a phone the tabs may be wider than the window.
  useEffect(() => list.current?.querySelector('[data-state="active"]')?.scrollIntoView({ block: "nearest", inline: "nearest" }), [value]);
  return (
    <Tabs.Root value={value} onValueChange={onChange} className="flex min-h-0 flex-1 flex-col">
      <Tabs.List ref={list} aria-label={label} className="flex shrink-0 gap-5 overflow-x-auto border-b">
        {tabs.map((tab) => (
          <Tabs.Trigger
            key={tab.value}
            value={tab.value}
            className="-mb-px h-9 shrink-0 border-b-2 border-transparent text-[13px] font-medium whitespace-nowrap text-muted hover:text-text data-[state=active]:border-strong data-[state=active]:text-text"
          >
            {tab.label}
          </Tabs.Trigger>
        ))}
      </Tabs.List>
      {tabs.map((tab) => (
        <Tabs.Content key={tab.value} value={tab.value} className="flex min-h-0 flex-1 flex-col pt-4 outline-none" tabIndex={-1}>
          {tab.content}
        </Tabs.Content>
      ))}
    </Tabs.Root>
  );
}
