import { useNavigate } from "@tanstack/react-router";
import { Copy, Download, GitCompare, GitFork, MoreHorizontal, RotateCcw, Square, Terminal, Undo2, Workflow } from "lucide-react";
import { useState } from "react";
import { Button, ButtonLink, IconButton } from "@/components/Button";
import { Menu, MenuItem, MenuLine } from "@/components/Overlay";
import { ErrorNote } from "@/components/States";
import { type Run, useCancelRun } from "@/data/runs";
import { repeatRun, stateCurl } from "@/model/commands";
import type { EntrySummary } from "@/model/entries";
import { hasEnded } from "@/model/status";
import { CompareDialog } from "./CompareDialog";
import { ForkDialog } from "./ForkDialog";
import { ReplayDialog } from "./ReplayDialog";
import { UndoDialog } from "./UndoDialog";

type Open = "fork" | "replay" | "compare" | "undo" | undefined;

interface Props {
  run: Run;
  entries: EntrySummary[];
  entry: EntrySummary | undefined;
}

export function RunActions({ run, entries, entry }: Props) {
  const [open, setOpen] = useState<Open>();
  const cancel = useCancelRun(run.id);
  const navigate = useNavigate();
  const ended = hasEnded(run.status);
  const close = () => setOpen(undefined);
  const repeat = repeatRun(run, entries[0]?.detail ?? "", run.toolCalls[0]?.input);
  const copy = (text: string) => void navigator.clipboard.writeText(text);
  return (
    <>
      {run.kind === "workflow" && (
        <ButtonLink to="/instances/$id" params={{ id: run.id }}>
          <Workflow size={14} aria-hidden /> Graph
        </ButtonLink>
      )}
      <Button onClick={() => setOpen("fork")} disabledReason={entry?.canFork ? undefined : (entry?.whyNot ?? "Select an entry of the timeline")}>
        <GitFork size={14} aria-hidden /> Fork here
      </Button>
      <Button onClick={() => setOpen("replay")} disabledReason={ended ? undefined : "A run can be replayed when it has ended"}>
        <RotateCcw size={14} aria-hidden /> Replay
      </Button>
      <Button onClick={() => setOpen("compare")}>
        <GitCompare size={14} aria-hidden /> Compare
      </Button>
      {!ended && (
        <Button variant="danger" busy={cancel.isPending} onClick={() => cancel.mutate()}>
          <Square size={12} aria-hidden /> Cancel
        </Button>
      )}
      <Menu
        trigger={
          <IconButton label="More actions" variant="secondary">
            <MoreHorizontal size={16} aria-hidden />
          </IconButton>
        }
      >
        {repeat && (
          <>
            <MenuItem onSelect={() => copy(repeat.curl)}>
              <Copy size={14} aria-hidden /> Copy this run as curl
            </MenuItem>
            <MenuItem onSelect={() => copy(repeat.command)}>
              <Terminal size={14} aria-hidden /> Copy this run as a command
            </MenuItem>
          </>
        )}
        {entry && (
          <MenuItem onSelect={() => copy(stateCurl(run.id, entry.n))}>
            <Copy size={14} aria-hidden /> Copy the state at entry {entry.n} as curl
          </MenuItem>
        )}
        <MenuLine />
        <MenuItem onSelect={() => download(run.id)}>
          <Download size={14} aria-hidden /> Export the bundle
        </MenuItem>
        {ended && (
          <MenuItem onSelect={() => setOpen("undo")}>
            <Undo2 size={14} aria-hidden /> Undo the writes…
          </MenuItem>
        )}
      </Menu>
      {cancel.isError && <ErrorNote error={cancel.error} />}
      {open === "fork" && entry && <ForkDialog run={run} entry={entry} onClose={close} />}
      {open === "replay" && <ReplayDialog run={run} onClose={close} />}
      {open === "compare" && (
        <CompareDialog
          run={run}
          onClose={close}
          onChoose={(other) => void navigate({ to: "/runs/$id/compare/$other", params: { id: run.id, other } })}
        />
      )}
      {open === "undo" && <UndoDialog run={run} onClose={close} />}
    </>
  );
}

/** The route takes the session's cookie, so a link can start the download. */
function download(id: string) {
  const link = document.createElement("a");
  link.href = `/api/v1/ai/runs/${id}/export`;
  link.download = `${id}.jsonl`;
  link.click();
}
