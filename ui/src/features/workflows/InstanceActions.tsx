import { CirclePause, CirclePlay, Radio, RotateCcw, Square, Waypoints } from "lucide-react";
import { useState } from "react";
import { Button, ButtonLink } from "@/components/Button";
import { ErrorNote } from "@/components/States";
import { type Instance, useInstanceActions } from "@/data/instances";
import { hasEnded } from "@/model/status";
import { RetryDialog, SignalDialog } from "./InstanceDialogs";

export function InstanceActions({ instance, step }: { instance: Instance; step: string | undefined }) {
  const [open, setOpen] = useState<"signal" | "retry">();
  const { pause, resume, cancel } = useInstanceActions(instance.id);
  const ended = hasEnded(instance.status);
  const close = () => setOpen(undefined);
  return (
    <>
      {!ended && (
        <Button onClick={() => setOpen("signal")}>
          <Radio size={14} aria-hidden /> Signal…
        </Button>
      )}
      {!ended &&
        (instance.paused ? (
          <Button variant="primary" busy={resume.isPending} onClick={() => resume.mutate()}>
            <CirclePlay size={14} aria-hidden /> Resume
          </Button>
        ) : (
          <Button busy={pause.isPending} onClick={() => pause.mutate()}>
            <CirclePause size={14} aria-hidden /> Pause
          </Button>
        ))}
      <Button onClick={() => setOpen("retry")}>
        <RotateCcw size={14} aria-hidden /> Run again…
      </Button>
      {!ended && (
        <Button variant="danger" busy={cancel.isPending} onClick={() => cancel.mutate()}>
          <Square size={12} aria-hidden /> Cancel
        </Button>
      )}
      <ButtonLink to="/runs/$id" params={{ id: instance.id }}>
        <Waypoints size={14} aria-hidden /> Run microscope
      </ButtonLink>
      <ErrorNote error={pause.error ?? resume.error ?? cancel.error} />
      {open === "signal" && (
        <SignalDialog instance={instance} name={step ? (instance.steps[step]?.signal ?? undefined) : undefined} onClose={close} />
      )}
      {open === "retry" && <RetryDialog instance={instance} step={step} onClose={close} />}
    </>
  );
}
