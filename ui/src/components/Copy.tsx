import { Check, Copy } from "lucide-react";
import { type ReactNode, useRef, useState } from "react";
import { Button, IconButton } from "./Button";

function useCopied() {
  const [copied, setCopied] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  async function copy(text: string) {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setCopied(false), 1600);
  }
  return { copied, copy };
}

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const { copied, copy } = useCopied();
  return (
    <IconButton label={copied ? "Copied" : label} size="icon-sm" onClick={() => void copy(text)}>
      {copied ? <Check size={14} aria-hidden className="text-ok" /> : <Copy size={14} aria-hidden />}
    </IconButton>
  );
}

export function CopyTextButton({ text, children }: { text: string; children: ReactNode }) {
  const { copied, copy } = useCopied();
  return (
    <Button size="sm" onClick={() => void copy(text)}>
      {copied ? <Check size={13} aria-hidden className="text-ok" /> : <Copy size={13} aria-hidden />}
      {children}
    </Button>
  );
}
