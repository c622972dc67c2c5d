import { StatusIconMark } from "@/components/Badge";
import { useNow } from "@/components/Time";
import { VirtualList } from "@/components/VirtualList";
import { duration } from "@/model/format";
import { type GraphStep, handlerText, stepKind } from "@/model/workflow/graph";
import { type StepState, itemProgress, stepDuration, stepStatus } from "@/model/workflow/steps";
import { cx } from "@/components/cx";
import { useCallback } from "react";
import { StepIcon } from "./StepIcon";

interface StepListProps {
  steps: GraphStep[];
  states?: Record<string, StepState>;
  selected: string | undefined;
  onSelect: (step: string) => void;
}

const keyOf = (step: GraphStep) => step.name;
const nothing = () => undefined;

/** The steps in the order of the definition, with their times. */
export function StepList({ steps, states, selected, onSelect }: StepListProps) {
  const row = useCallback(
    (step: GraphStep) => <Row step={step} state={states?.[step.name]} selected={step.name === selected} onSelect={onSelect} />,
    [states, selected, onSelect],
  );
  return <VirtualList framed={false} label="Steps" items={steps} rowHeight={49} keyOf={keyOf} row={row} hasMore={false} loadMore={nothing} />;
}

interface RowProps {
  step: GraphStep;
  state: StepState | undefined;
  selected: boolean;
  onSelect: (step: string) => void;
}

function Row({ step, state, selected, onSelect }: RowProps) {
  return (
    <button
      type="button"
      aria-pressed={selected}
      onClick={() => onSelect(step.name)}
      className={cx("flex h-full w-full items-center gap-3 px-4 text-left -outline-offset-2", selected && "bg-selected")}
    >
      {state ? <StatusIconMark info={stepStatus(state.status)} /> : <StepIcon kind={stepKind(step.handlerRef)} />}
      <span className="min-w-0 flex-1">
        <span className="block truncate font-medium">{step.name}</span>
        <span className="block truncate text-xs text-faint">{handlerText(step)}</span>
      </span>
      {state && (
        <span className="shrink-0 text-right text-xs text-muted tabular">
          <span className="block">{[itemProgress(state), state.attempts > 1 && `${state.attempts} calls`].filter(Boolean).join(" · ")}</span>
          <span className="block">
            <StepTime state={state} />
          </span>
        </span>
      )}
    </button>
  );
}

/** How long a step took, or has taken so far. */
export function StepTime({ state }: { state: StepState }) {
  return state.endedAt ? duration(stepDuration(state, 0) ?? 0) : state.startedAt ? <OpenTime state={state} /> : null;
}

function OpenTime({ state }: { state: StepState }) {
  return <>{duration(stepDuration(state, useNow()) ?? 0)}</>;
}
