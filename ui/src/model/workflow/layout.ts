/**
 * Positions of the steps of a workflow, from left to right or from top to bottom. A step with a position in the `layout` of
 * the definition is placed there.
 */
import { type GraphDefinition, type GraphEdge, edgesOf } from "./graph";

export const NODE_WIDTH = 188;
export const NODE_HEIGHT = 54;
/** The height of the gap through which an edge passes a rank. */
const LANE = 18;
const MARGIN = 24;
const SWEEPS = 6;
/** Beyond this number of places where edges pass ranks, edges are drawn straight. */
const MAX_LANES = 6000;

export interface Point {
  x: number;
  y: number;
}

export interface DrawnEdge extends GraphEdge {
  /** The points from the side of a step to the side of another. */
  points: Point[];
  /** Whether the edge leaves and enters steps vertically. */
  vertical: boolean;
}

export interface GraphLayout {
  width: number;
  height: number;
  /** The top left corner of each step. */
  positions: Map<string, Point>;
  edges: DrawnEdge[];
}

/** The directions of a layout: steps of a later rank are further along, steps of the same rank are beside each other. */
interface Axes {
  vertical: boolean;
  along: number;
  gapAlong: number;
  beside: number;
  gapBeside: number;
}

const RIGHTWARDS: Axes = { vertical: false, along: NODE_WIDTH, gapAlong: 68, beside: NODE_HEIGHT, gapBeside: 22 };
const DOWNWARDS: Axes = { vertical: true, along: NODE_HEIGHT, gapAlong: 42, beside: NODE_WIDTH, gapBeside: 26 };

/** The part of a screen in which a graph should be readable. */
const PANEL = { width: 640, height: 560 };

/** Without positions in the definition, the direction is the one in which the graph fits better. */
export function layoutOf(definition: GraphDefinition): GraphLayout {
  const names = [...new Set(definition.steps.map((step) => step.name))];
  const edges = edgesOf(definition.steps);
  const pinned = pinnedPositions(definition, names);
  const rightwards = new Ranks(names, edges, RIGHTWARDS);
  if (pinned.size > 0) return layoutAround(pinned, rightwards, edges);
  const candidates = [new Ranks(names, edges, DOWNWARDS), rightwards].map((ranks) =>
    frame(ranks.place(), edges, (edge) => ({ points: ranks.lanesOf(edge), vertical: ranks.axes.vertical })),
  );
  const size = (layout: GraphLayout) => Math.max(layout.width / PANEL.width, layout.height / PANEL.height);
  return candidates.reduce((best, next) => (size(next) < size(best) ? next : best));
}

/** Whether the graph needs the whole width of a screen. */
export function isWide(layout: GraphLayout): boolean {
  return layout.width > 1.25 * PANEL.width && layout.width > 2.5 * layout.height;
}

function pinnedPositions(definition: GraphDefinition, names: string[]): Map<string, Point> {
  const pinned = new Map<string, Point>();
  for (const name of names) {
    const place = definition.layout?.[name] as { x?: unknown; y?: unknown } | null | undefined;
    if (Number.isFinite(place?.x) && Number.isFinite(place?.y)) pinned.set(name, { x: Number(place?.x), y: Number(place?.y) });
  }
  return pinned;
}

/** The other steps keep their places relative to each other, unless one of them would cover a step. */
function layoutAround(pinned: Map<string, Point>, ranks: Ranks, edges: GraphEdge[]): GraphLayout {
  const automatic = ranks.place();
  const shift = {
    x: mean([...pinned].map(([name, point]) => point.x - (automatic.get(name)?.x ?? 0))),
    y: mean([...pinned].map(([name, point]) => point.y - (automatic.get(name)?.y ?? 0))),
  };
  const move = (point: Point) => ({ x: point.x + shift.x, y: point.y + shift.y });
  const others = [...automatic].filter(([name]) => !pinned.has(name)).map(([name, point]) => [name, move(point)] as const);
  const fixed = [...pinned.values()];
  if (others.some(([, point]) => covering(fixed, point) !== undefined)) return frame(placeAround(pinned, automatic, ranks.order(), edges), edges);
  return frame(new Map([...pinned, ...others]), edges, (edge) => {
    const free = !pinned.has(edge.to);
    return free ? { points: ranks.lanesOf(edge).map(move), vertical: false } : undefined;
  });
}

/** Places each other step to the right of those that it depends on, at the first free place. */
function placeAround(pinned: Map<string, Point>, automatic: Map<string, Point>, order: string[], edges: GraphEdge[]): Map<string, Point> {
  const placed = new Map(pinned);
  const before = new Map<string, string[]>();
  for (const edge of edges) before.set(edge.to, [...(before.get(edge.to) ?? []), edge.from]);
  for (const name of order) {
    if (placed.has(name)) continue;
    const sources = (before.get(name) ?? []).filter((source) => placed.has(source));
    const shift = mean(sources.map((source) => (placed.get(source)?.y ?? 0) - (automatic.get(source)?.y ?? 0)));
    const x = Math.max(0, ...sources.map((source) => (placed.get(source)?.x ?? 0) + NODE_WIDTH + RIGHTWARDS.gapAlong));
    let y = (automatic.get(name)?.y ?? 0) + shift;
    const taken = [...placed.values()];
    for (let other = covering(taken, { x, y }); other; other = covering(taken, { x, y })) y = other.y + NODE_HEIGHT + RIGHTWARDS.gapBeside;
    placed.set(name, { x, y });
  }
  return placed;
}

function covering(taken: Point[], { x, y }: Point): Point | undefined {
  return taken.find((other) => Math.abs(other.x - x) < NODE_WIDTH && Math.abs(other.y - y) < NODE_HEIGHT + 8);
}

type Route = (edge: GraphEdge) => { points: Point[]; vertical: boolean } | undefined;

/** Moves everything into a frame that begins at 0, and draws the edges. */
function frame(positions: Map<string, Point>, edges: GraphEdge[], route: Route = () => undefined): GraphLayout {
  const all = [...positions.values()];
  const lowest = (values: number[]) => (values.length > 0 ? values.reduce((a, b) => Math.min(a, b)) : 0);
  const left = lowest(all.map((point) => point.x)) - MARGIN;
  const top = lowest(all.map((point) => point.y)) - MARGIN;
  const move = (point: Point): Point => ({ x: Math.round(point.x - left), y: Math.round(point.y - top) });
  const moved = new Map([...positions].map(([name, point]) => [name, move(point)]));
  const drawn = edges.map((edge) => {
    const from = moved.get(edge.from) ?? { x: 0, y: 0 };
    const to = moved.get(edge.to) ?? { x: 0, y: 0 };
    const { points, vertical } = route(edge) ?? { points: [], vertical: to.x < from.x + NODE_WIDTH && to.y >= from.y + NODE_HEIGHT };
    const [start, end] = vertical
      ? [
          { x: from.x + NODE_WIDTH / 2, y: from.y + NODE_HEIGHT },
          { x: to.x + NODE_WIDTH / 2, y: to.y },
        ]
      : [
          { x: from.x + NODE_WIDTH, y: from.y + NODE_HEIGHT / 2 },
          { x: to.x, y: to.y + NODE_HEIGHT / 2 },
        ];
    return { ...edge, vertical, points: [start, ...points.map(move), end] };
  });
  const highest = (values: number[]) => values.reduce((a, b) => Math.max(a, b), 0);
  const corners = [...moved.values()];
  return {
    width: highest(corners.map((point) => point.x)) + NODE_WIDTH + MARGIN,
    height: highest(corners.map((point) => point.y)) + NODE_HEIGHT + MARGIN,
    positions: moved,
    edges: drawn,
  };
}

/** A step, or the place where an edge passes a rank. */
interface Slot {
  rank: number;
  /** How much room it takes beside the others of its rank. */
  size: number;
  /** Its middle. */
  middle: number;
  before: Slot[];
  after: Slot[];
}

/** Steps in ranks: each step is in a later rank than all steps that run before it. */
class Ranks {
  private readonly ranks: Slot[][] = [];
  private readonly slots = new Map<string, Slot>();
  private readonly lanes = new Map<GraphEdge, Slot[]>();
  private readonly sorted: string[];

  constructor(
    names: string[],
    edges: GraphEdge[],
    readonly axes: Axes,
  ) {
    const ranks = ranksOf(names, edges);
    this.sorted = [...names].sort((a, b) => (ranks.get(a) ?? 0) - (ranks.get(b) ?? 0));
    for (const name of names) this.slots.set(name, this.add(ranks.get(name) ?? 0, axes.beside + axes.gapBeside));
    const span = (edge: GraphEdge) => (ranks.get(edge.to) ?? 0) - (ranks.get(edge.from) ?? 0);
    const total = edges.reduce((sum, edge) => sum + Math.max(0, span(edge) - 1), 0);
    for (const edge of edges) if (span(edge) > 0) this.connect(edge, total <= MAX_LANES);
  }

  /** The names of the steps, each after those that run before it. */
  order(): string[] {
    return this.sorted;
  }

  lanesOf(edge: GraphEdge): Point[] {
    const { along } = this.axes;
    return (this.lanes.get(edge) ?? []).flatMap((slot) => {
      const start = this.start(slot.rank);
      return [this.point(start, slot.middle), this.point(start + along, slot.middle)];
    });
  }

  place(): Map<string, Point> {
    for (const rank of this.ranks) centre(rank);
    for (let sweep = 0; sweep < SWEEPS; sweep++) {
      const forward = sweep % 2 === 0;
      const wanted = (slot: Slot) => meanOrNone((forward ? slot.before : slot.after).map((other) => other.middle));
      for (const rank of forward ? this.ranks : [...this.ranks].reverse()) {
        if (sweep < SWEEPS - 2) rank.sort((a, b) => (wanted(a) ?? a.middle) - (wanted(b) ?? b.middle));
        stack(rank, wanted);
      }
    }
    return new Map([...this.slots].map(([name, slot]) => [name, this.point(this.start(slot.rank), slot.middle - this.axes.beside / 2)]));
  }

  private start(rank: number): number {
    return rank * (this.axes.along + this.axes.gapAlong);
  }

  private point(along: number, beside: number): Point {
    return this.axes.vertical ? { x: beside, y: along } : { x: along, y: beside };
  }

  private add(rank: number, size: number): Slot {
    const slot: Slot = { rank, size, middle: 0, before: [], after: [] };
    while (this.ranks.length <= rank) this.ranks.push([]);
    this.ranks[rank]?.push(slot);
    return slot;
  }

  private connect(edge: GraphEdge, withLanes: boolean) {
    const from = this.slots.get(edge.from);
    const to = this.slots.get(edge.to);
    if (!from || !to) return;
    const between: Slot[] = [];
    if (withLanes) for (let rank = from.rank + 1; rank < to.rank; rank++) between.push(this.add(rank, LANE));
    this.lanes.set(edge, between);
    const chain = [from, ...between, to];
    chain.slice(1).forEach((slot, index) => {
      const previous = chain[index];
      if (!previous) return;
      slot.before.push(previous);
      previous.after.push(slot);
    });
  }
}

/** The longest path from a step without predecessors. Steps of a cycle come last, in their order. */
function ranksOf(names: string[], edges: GraphEdge[]): Map<string, number> {
  const after = new Map<string, string[]>();
  const open = new Map(names.map((name) => [name, 0]));
  for (const edge of edges) {
    after.set(edge.from, [...(after.get(edge.from) ?? []), edge.to]);
    open.set(edge.to, (open.get(edge.to) ?? 0) + 1);
  }
  const ranks = new Map<string, number>();
  const ready = names.filter((name) => open.get(name) === 0);
  for (const name of ready) ranks.set(name, 0);
  for (let next = 0; next < ready.length; next++) {
    const name = ready[next] ?? "";
    for (const target of after.get(name) ?? []) {
      ranks.set(target, Math.max(ranks.get(target) ?? 0, (ranks.get(name) ?? 0) + 1));
      open.set(target, (open.get(target) ?? 0) - 1);
      if (open.get(target) === 0) ready.push(target);
    }
  }
  const last = Math.max(0, ...ranks.values());
  for (const name of names) if ((open.get(name) ?? 0) > 0) ranks.set(name, last + 1);
  return ranks;
}

/** Places the slots of a rank in their order, around the middle of the graph. */
function centre(rank: Slot[]) {
  let next = -rank.reduce((sum, slot) => sum + slot.size, 0) / 2;
  for (const slot of rank) {
    slot.middle = next + slot.size / 2;
    next += slot.size;
  }
}

/**
 * Places the slots of a rank in their order, without overlap, as near as possible to the wanted positions: neighbours that
 * would overlap form a block at the mean of their wishes.
 */
function stack(rank: Slot[], wanted: (slot: Slot) => number | undefined) {
  const offsets: number[] = [];
  let next = 0;
  for (const slot of rank) {
    offsets.push(next + slot.size / 2);
    next += slot.size;
  }
  const blocks: { sum: number; count: number }[] = [];
  rank.forEach((slot, index) => {
    blocks.push({ sum: (wanted(slot) ?? slot.middle) - (offsets[index] ?? 0), count: 1 });
    for (let last = blocks.length - 1; last > 0; last--) {
      const upper = blocks[last - 1];
      const lower = blocks[last];
      if (!upper || !lower || upper.sum / upper.count <= lower.sum / lower.count) break;
      upper.sum += lower.sum;
      upper.count += lower.count;
      blocks.pop();
    }
  });
  let index = 0;
  for (const block of blocks) {
    for (let count = 0; count < block.count; count++, index++) {
      const slot = rank[index];
      if (slot) slot.middle = block.sum / block.count + (offsets[index] ?? 0);
    }
  }
}

function meanOrNone(values: number[]): number | undefined {
  return values.length === 0 ? undefined : mean(values);
}

function mean(values: number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** An edge as the path of an SVG, which is horizontal or vertical at each of its points. */
export function edgePath(points: Point[], vertical = false): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let from = first;
  let path = `M${first.x} ${first.y}`;
  for (const to of rest) {
    path += vertical ? verticalPart(from, to) : horizontalPart(from, to);
    from = to;
  }
  return path;
}

function horizontalPart(from: Point, to: Point): string {
  if (to.y === from.y && to.x >= from.x) return `H${to.x}`;
  const bend = to.x >= from.x ? (to.x - from.x) / 2 : Math.max(60, (from.x - to.x) / 2);
  return `C${from.x + bend} ${from.y} ${to.x - bend} ${to.y} ${to.x} ${to.y}`;
}

function verticalPart(from: Point, to: Point): string {
  if (to.x === from.x) return `V${to.y}`;
  const bend = (to.y - from.y) / 2;
  return `C${from.x} ${from.y + bend} ${to.x} ${to.y - bend} ${to.x} ${to.y}`;
}

/** Where the label of an edge has room: in front of the step to which it leads. */
export function labelPoint(points: Point[]): Point {
  const [from, to] = points.slice(-2);
  if (!from || !to) return { x: 0, y: 0 };
  return { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
}

export type Direction = "left" | "right" | "up" | "down";

/** The nearest step in a direction, or undefined. Steps in the same line and steps with an edge are preferred. */
export function neighbour(layout: GraphLayout, name: string, direction: Direction): string | undefined {
  const from = layout.positions.get(name);
  if (!from) return undefined;
  const horizontal = direction === "left" || direction === "right";
  const sign = direction === "right" || direction === "down" ? 1 : -1;
  const joined = new Set(layout.edges.flatMap((edge) => (edge.from === name ? [edge.to] : edge.to === name ? [edge.from] : [])));
  let best: { name: string; cost: number } | undefined;
  for (const [other, point] of layout.positions) {
    // In steps instead of pixels, because steps are wider than high.
    const dx = (point.x - from.x) / (NODE_WIDTH + 40);
    const dy = (point.y - from.y) / (NODE_HEIGHT + 40);
    const along = sign * (horizontal ? dx : dy);
    if (along < 0.5) continue;
    const cost = (along + 2 * Math.abs(horizontal ? dy : dx)) * (joined.has(other) ? 0.4 : 1);
    if (!best || cost < best.cost) best = { name: other, cost };
  }
  return best?.name;
}
