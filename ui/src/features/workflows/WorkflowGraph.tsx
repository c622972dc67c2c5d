import { Maximize, Minus, Plus, Repeat } from "lucide-react";
import { type PointerEvent, memo, useEffect, useLayoutEffect, useRef, useState } from "react";
import { StatusIconMark } from "@/components/Badge";
import { IconButton } from "@/components/Button";
import { cx } from "@/components/cx";
import { type GraphDefinition, type GraphEdge, type GraphStep, handlerText, stepKind } from "@/model/workflow/graph";
import { type Direction, type DrawnEdge, type GraphLayout, NODE_HEIGHT, NODE_WIDTH, edgePath, labelPoint, neighbour } from "@/model/workflow/layout";
import { type StepState, itemProgress, stepStatus } from "@/model/workflow/steps";
import type { Tone } from "@/model/status";
import { StepIcon } from "./StepIcon";

/** Beyond this number of steps a graph helps nobody; the list of steps is shown instead. */
export const MAX_DRAWN_STEPS = 1000;

/** The frame of a graph and its inspector. On a phone they scroll together. */
export const FRAME =
  "-mx-4 flex min-h-0 flex-1 flex-col border-t max-lg:overflow-y-auto sm:-mx-7 lg:mx-0 lg:mb-6 lg:overflow-hidden lg:rounded-lg lg:border lg:bg-surface lg:shadow-card";

/** A wide graph is above its inspector, any other one beside it. */
export const GRAPH_PLACE = {
  above: "flex min-w-0 shrink-0 flex-col bg-surface max-lg:h-[46vh] lg:h-[38%] lg:border-b",
  beside: "flex min-w-0 flex-col bg-surface max-lg:h-[46vh] max-lg:shrink-0 lg:min-h-0 lg:flex-[1.45] lg:border-r",
};

const MIN_SCALE = 0.2;
/** A graph that would be smaller opens at this scale, and scrolls. */
const MIN_FIRST_SCALE = 0.75;
const MAX_SCALE = 2;
const ZOOM = 1.25;

interface WorkflowGraphProps {
  definition: GraphDefinition;
  layout: GraphLayout;
  /** The states of the steps of an instance. Without them, the graph shows the definition only. */
  states?: Record<string, StepState>;
  selected: string | undefined;
  onSelect: (step: string) => void;
}

/** The steps as boxes and the edges between them. The arrow keys move between the steps, `+`, `-` and `0` zoom. */
export function WorkflowGraph({ definition, layout, states, selected, onSelect }: WorkflowGraphProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [scale, setScale] = useState(1);
  const fit = () => setScale(fittingScale(layout, scroller.current));
  const zoom = (factor: number) => setScale((previous) => clamp(previous * factor));
  useLayoutEffect(() => setScale(Math.max(MIN_FIRST_SCALE, fittingScale(layout, scroller.current))), [layout]);
  useZoomWheel(scroller, zoom);
  const drag = useDrag(scroller);
  const focusable = selected !== undefined && layout.positions.has(selected) ? selected : definition.steps[0]?.name;

  // An instance opens at the step that needs attention, which may be outside of the visible part.
  useEffect(() => {
    scroller.current?.querySelector('[aria-pressed="true"]')?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [selected, scale]);

  function onKey(event: React.KeyboardEvent) {
    const direction = DIRECTIONS[event.key];
    const target = direction && focusable ? neighbour(layout, focusable, direction) : undefined;
    if (target) {
      onSelect(target);
      scroller.current?.querySelector<HTMLElement>(`[data-step="${target}"]`)?.focus();
    } else if (event.key === "+" || event.key === "=") zoom(ZOOM);
    else if (event.key === "-") zoom(1 / ZOOM);
    else if (event.key === "0") fit();
    else if (!direction) return;
    event.preventDefault();
  }

  return (
    <div className="relative flex min-h-0 flex-1 flex-col bg-sunken">
      <div
        ref={scroller}
        role="group"
        aria-label="Graph of the steps"
        className="flex min-h-0 flex-1 overflow-auto [touch-action:pan-x_pan-y]"
        onKeyDown={onKey}
        {...drag}
      >
        <div className="relative m-auto shrink-0" style={{ width: layout.width * scale, height: layout.height * scale }}>
          <div className="absolute top-0 left-0 origin-top-left" style={{ width: layout.width, height: layout.height, transform: `scale(${scale})` }}>
            <Edges layout={layout} states={states} />
            {selected !== undefined && <SelectedEdges layout={layout} selected={selected} />}
            {definition.steps.map((step) => (
              <Node
                key={step.name}
                step={step}
                x={layout.positions.get(step.name)?.x ?? 0}
                y={layout.positions.get(step.name)?.y ?? 0}
                state={states?.[step.name]}
                hasStates={states !== undefined}
                selected={step.name === selected}
                focusable={step.name === focusable}
                onSelect={onSelect}
              />
            ))}
          </div>
        </div>
      </div>
      <div role="group" aria-label="Zoom" className="absolute right-2 bottom-2 flex items-center rounded-md border bg-surface shadow-card">
        <IconButton label="Zoom out" size="icon-sm" onClick={() => zoom(1 / ZOOM)}>
          <Minus size={14} aria-hidden />
        </IconButton>
        <span className="w-9 text-center text-[11px] text-faint tabular">{Math.round(scale * 100)}%</span>
        <IconButton label="Zoom in" size="icon-sm" onClick={() => zoom(ZOOM)}>
          <Plus size={14} aria-hidden />
        </IconButton>
        <IconButton label="Fit the graph" size="icon-sm" onClick={fit}>
          <Maximize size={13} aria-hidden />
        </IconButton>
      </div>
    </div>
  );
}

const DIRECTIONS: Record<string, Direction> = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };

function clamp(scale: number): number {
  return Math.min(MAX_SCALE, Math.max(MIN_SCALE, scale));
}

function fittingScale(layout: GraphLayout, element: HTMLElement | null): number {
  if (!element || element.clientWidth === 0) return 1;
  return Math.max(MIN_SCALE, Math.min(1, element.clientWidth / layout.width, element.clientHeight / layout.height));
}

/** Ctrl and the wheel, which is also what a pinch on a touchpad sends. React's own listener could not prevent the zoom of the page. */
function useZoomWheel(scroller: React.RefObject<HTMLDivElement | null>, zoom: (factor: number) => void) {
  useEffect(() => {
    const element = scroller.current;
    function onWheel(event: WheelEvent) {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 300));
    }
    element?.addEventListener("wheel", onWheel, { passive: false });
    return () => element?.removeEventListener("wheel", onWheel);
  });
}

/** Moves the visible part with the mouse. Fingers scroll by themselves. */
function useDrag(scroller: React.RefObject<HTMLDivElement | null>) {
  const start = useRef<{ x: number; y: number }>(undefined);
  return {
    onPointerDown(event: PointerEvent) {
      if (event.pointerType !== "mouse" || event.button !== 0 || (event.target as Element).closest("button")) return;
      start.current = { x: event.clientX, y: event.clientY };
      event.currentTarget.setPointerCapture(event.pointerId);
    },
    onPointerMove(event: PointerEvent) {
      if (!start.current || !scroller.current) return;
      scroller.current.scrollBy(start.current.x - event.clientX, start.current.y - event.clientY);
      start.current = { x: event.clientX, y: event.clientY };
    },
    onPointerUp() {
      start.current = undefined;
    },
  };
}

const EDGE_TONES = {
  idle: "stroke-line-strong",
  taken: "stroke-span-tool",
  error: "stroke-span-bad",
  selected: "stroke-accent-line",
};

const HEAD_TONES = { idle: "fill-line-strong", taken: "fill-span-tool", error: "fill-span-bad", selected: "fill-accent-line" };

function edgeTone(edge: GraphEdge, states: Record<string, StepState> | undefined): keyof typeof EDGE_TONES {
  if (edge.kind === "error") return "error";
  const from = states?.[edge.from]?.status;
  const to = states?.[edge.to]?.status;
  return from === "COMPLETED" && to !== undefined && to !== "PENDING" && to !== "SKIPPED" ? "taken" : "idle";
}

interface EdgesProps {
  layout: GraphLayout;
  states: Record<string, StepState> | undefined;
}

const Edges = memo(function Edges({ layout, states }: EdgesProps) {
  return (
    <svg aria-hidden width={layout.width} height={layout.height} className="absolute inset-0">
      {layout.edges.map((edge) => (
        <Edge key={`${edge.from} ${edge.to} ${edge.label}`} edge={edge} tone={edgeTone(edge, states)} />
      ))}
    </svg>
  );
});

/** The edges of the selected step, on top of the others, so that a selection does not draw all edges again. */
function SelectedEdges({ layout, selected }: { layout: GraphLayout; selected: string }) {
  return (
    <svg aria-hidden width={layout.width} height={layout.height} className="pointer-events-none absolute inset-0">
      {layout.edges
        .filter((edge) => edge.from === selected || edge.to === selected)
        .map((edge) => (
          <Edge key={`${edge.from} ${edge.to} ${edge.label}`} edge={edge} tone="selected" />
        ))}
    </svg>
  );
}

function Edge({ edge, tone }: { edge: DrawnEdge; tone: keyof typeof EDGE_TONES }) {
  const end = edge.points.at(-1) ?? { x: 0, y: 0 };
  const label = labelPoint(edge.points);
  return (
    <g>
      <path
        d={edgePath(edge.points, edge.vertical)}
        fill="none"
        strokeWidth={1.5}
        strokeDasharray={edge.kind === "error" ? "5 4" : undefined}
        className={EDGE_TONES[tone]}
      />
      <path d={`M${end.x} ${end.y}${edge.vertical ? "l-4 -7h8z" : "l-7 -4v8z"}`} className={HEAD_TONES[tone]} />
      {edge.label && (
        <text
          x={label.x}
          y={label.y + 4}
          textAnchor="middle"
          className="fill-muted stroke-sunken text-[11px] [paint-order:stroke] [stroke-width:5px]"
        >
          {edge.label.length > 14 ? `${edge.label.slice(0, 13)}…` : edge.label}
        </text>
      )}
    </g>
  );
}

const NODE_TONES: Record<Tone, string> = {
  neutral: "border-line-strong bg-surface",
  active: "border-active bg-active-soft",
  ok: "border-ok/50 bg-ok-soft",
  wait: "border-wait/60 bg-wait-soft",
  warn: "border-warn/60 bg-warn-soft",
  bad: "border-bad/70 bg-bad-soft",
};

interface NodeProps {
  step: GraphStep;
  x: number;
  y: number;
  state: StepState | undefined;
  hasStates: boolean;
  selected: boolean;
  /** Whether the step is the one that the Tab key reaches. */
  focusable: boolean;
  onSelect: (step: string) => void;
}

const Node = memo(function Node({ step, x, y, state, hasStates, selected, focusable, onSelect }: NodeProps) {
  const info = state && stepStatus(state.status);
  const progress = state && itemProgress(state);
  const idle = hasStates && (state === undefined || state.status === "PENDING" || state.status === "SKIPPED");
  return (
    <button
      type="button"
      data-step={step.name}
      tabIndex={focusable ? 0 : -1}
      aria-pressed={selected}
      onClick={() => onSelect(step.name)}
      className={cx(
        "absolute flex items-center gap-2.5 rounded-lg border px-3 text-left shadow-card",
        NODE_TONES[info?.tone ?? "neutral"],
        idle && "border-dashed",
        selected && "ring-2 ring-accent-line",
      )}
      style={{ left: x, top: y, width: NODE_WIDTH, height: NODE_HEIGHT }}
    >
      <span className="text-faint">
        <StepIcon kind={stepKind(step.handlerRef)} size={16} />
      </span>
      <span className="min-w-0 flex-1">
        <span className="block truncate text-[13px] leading-tight font-medium">{step.name}</span>
        <span className="mt-0.5 flex items-center gap-1 text-[11.5px] leading-tight text-muted">
          <span className="truncate">{handlerText(step)}</span>
          {step.forEach !== undefined && step.forEach !== null && (
            <span className="flex shrink-0 items-center gap-0.5 tabular">
              <Repeat size={11} aria-hidden /> {progress ?? "each"}
              <span className="sr-only"> items</span>
            </span>
          )}
        </span>
      </span>
      {info && <StatusIconMark info={info} />}
    </button>
  );
});
