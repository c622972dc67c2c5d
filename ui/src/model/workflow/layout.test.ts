import { describe, expect, it } from "vitest";
import { type GraphStep, edgesOf, handlerText } from "./graph";
import { NODE_HEIGHT, NODE_WIDTH, edgePath, isWide, layoutOf, neighbour } from "./layout";

const step = (name: string, dependsOn: string[] = [], more: Partial<GraphStep> = {}): GraphStep => ({ name, handlerRef: "echo", dependsOn, ...more });

const DELIVERY = [
  step("load"),
  step("pack", ["load"]),
  step("route", ["pack"], { handlerRef: "quantum.flow.branch" }),
  step("insure", ["route.large"], { onError: { fallback: "report" } }),
  step("send", ["route.small"]),
  step("report"),
  step("done", ["insure", "send", "load"]),
];

function overlaps(steps: GraphStep[], layout?: Record<string, unknown>): string[] {
  const places = [...layoutOf({ steps, layout }).positions];
  return places.flatMap(([name, a], index) =>
    places
      .slice(index + 1)
      .filter(([, b]) => Math.abs(a.x - b.x) < NODE_WIDTH && Math.abs(a.y - b.y) < NODE_HEIGHT)
      .map(([other]) => `${name} and ${other}`),
  );
}

describe("edges", () => {
  it("are dependencies, cases of a branch and error routes", () => {
    const branch = step("fetch", [], { onError: { branch: { RATE_LIMIT: "later", TIMEOUT: "later", default: "report" } } });
    expect(edgesOf([branch, step("later"), step("report"), step("next", ["fetch", "missing"])])).toEqual([
      { from: "fetch", to: "later", kind: "error", label: "RATE_LIMIT, TIMEOUT" },
      { from: "fetch", to: "report", kind: "error", label: "other errors" },
      { from: "fetch", to: "next", kind: "dependency", label: "" },
    ]);
    expect(edgesOf(DELIVERY).filter((edge) => edge.kind !== "dependency")).toEqual([
      { from: "route", to: "insure", kind: "case", label: "large" },
      { from: "insure", to: "report", kind: "error", label: "error" },
      { from: "route", to: "send", kind: "case", label: "small" },
    ]);
  });

  it("names of handlers are short", () => {
    expect(handlerText(step("a", [], { handlerRef: "quantum.ai.invokeAgent", input: { agentRef: "clerk" } }))).toBe("clerk");
    expect(handlerText(step("a", [], { handlerRef: "quantum.ai.invokeAgent", input: { agentRef: "${input.agent}" } }))).toBe("Agent");
    expect(handlerText(step("a", [], { handlerRef: "quantum.flow.join" }))).toBe("Join");
    expect(handlerText(step("a", [], { handlerRef: "crm/find@^1" }))).toBe("crm/find@^1");
  });
});

describe("the layout of a workflow", () => {
  it("places each step below those that run before it, without overlap", () => {
    const { positions, edges, width, height } = layoutOf({ steps: DELIVERY });
    for (const edge of edges) expect(positions.get(edge.to)?.y).toBeGreaterThan(positions.get(edge.from)?.y ?? 0);
    expect(overlaps(DELIVERY)).toEqual([]);
    for (const { x, y } of positions.values()) {
      expect(x >= 0 && x + NODE_WIDTH <= width).toBe(true);
      expect(y >= 0 && y + NODE_HEIGHT <= height).toBe(true);
    }
  });

  it("routes a long edge past the steps between its ends", () => {
    const { positions, edges } = layoutOf({ steps: DELIVERY });
    const long = edges.find((edge) => edge.from === "load" && edge.to === "done");
    expect(long?.points.length).toBeGreaterThan(2);
    const passes = long?.points.some(({ x, y }) =>
      [...positions].some(([, at]) => x > at.x && x < at.x + NODE_WIDTH && y > at.y && y < at.y + NODE_HEIGHT),
    );
    expect(passes).toBe(false);
  });

  it("goes from left to right if many steps run in parallel", () => {
    const steps = [step("start"), ...Array.from({ length: 8 }, (_, index) => step(`s${index}`, ["start"]))];
    const layout = layoutOf({ steps });
    expect(layout.positions.get("s0")?.x).toBeGreaterThan(layout.positions.get("start")?.x ?? 0);
    expect(layout.edges.some((edge) => edge.vertical)).toBe(false);
    expect(isWide(layout)).toBe(false);
  });

  it("keeps the positions of the definition, and places the other steps around them", () => {
    const layout = { load: { x: 400, y: 300 }, pack: { x: 400, y: 420 }, done: { x: 660, y: 420 }, route: { zoom: 2 } };
    const { positions } = layoutOf({ steps: DELIVERY, layout });
    const [load, pack, route] = ["load", "pack", "route"].map((name) => positions.get(name));
    expect([(pack?.x ?? 0) - (load?.x ?? 0), (pack?.y ?? 0) - (load?.y ?? 0)]).toEqual([0, 120]);
    expect(route?.x).toBeGreaterThan((pack?.x ?? 0) + NODE_WIDTH);
    expect(overlaps(DELIVERY, layout)).toEqual([]);
  });

  it("shifts the other steps together if they cover nothing", () => {
    const steps = DELIVERY.slice(0, 3);
    const layout = { load: { x: 0, y: 0 }, pack: { x: 200, y: 0 } };
    const { positions } = layoutOf({ steps, layout });
    expect(positions.get("route")?.y).toBe(positions.get("pack")?.y);
    expect(isWide(layoutOf({ steps: [...steps, step("send", ["route"])], layout }))).toBe(true);
  });

  it("shows an invalid graph with a cycle, and a graph without steps", () => {
    expect(layoutOf({ steps: [step("a", ["b"]), step("b", ["a"])] }).positions.size).toBe(2);
    expect(layoutOf({ steps: [] }).positions.size).toBe(0);
  });

  it("places 2,000 steps within a second", () => {
    const steps = Array.from({ length: 2000 }, (_, index) => step(`s${index}`, index < 20 ? [] : [`s${index - 20}`, `s${Math.floor(index / 3)}`]));
    const before = performance.now();
    expect(layoutOf({ steps }).positions.size).toBe(2000);
    expect(performance.now() - before).toBeLessThan(1000);
  });
});

describe("arrow keys", () => {
  it("move to the nearest step in their direction", () => {
    const layout = layoutOf({ steps: DELIVERY });
    expect(neighbour(layout, "load", "down")).toBe("pack");
    expect(neighbour(layout, "pack", "up")).toBe("load");
    expect(neighbour(layout, "load", "up")).toBeUndefined();
    const [left = "", right = ""] = ["insure", "send"].sort((a, b) => (layout.positions.get(a)?.x ?? 0) - (layout.positions.get(b)?.x ?? 0));
    expect(neighbour(layout, left, "right")).toBe(right);
    expect(neighbour(layout, right, "left")).toBe(left);
  });
});

it("arrow keys prefer a step with an edge to a nearer one without", () => {
  const steps = [step("start"), step("next", ["start"]), step("apart")];
  const layout = layoutOf({ steps, layout: { start: { x: 0, y: 0 }, apart: { x: 230, y: 0 }, next: { x: 300, y: 40 } } });
  expect(neighbour(layout, "start", "right")).toBe("next");
});

describe("the path of an edge", () => {
  it("is a line if its ends are level, and a curve otherwise", () => {
    expect(
      edgePath([
        { x: 0, y: 5 },
        { x: 10, y: 5 },
      ]),
    ).toBe("M0 5H10");
    expect(
      edgePath([
        { x: 0, y: 0 },
        { x: 10, y: 20 },
      ]),
    ).toBe("M0 0C5 0 5 20 10 20");
    expect(
      edgePath(
        [
          { x: 0, y: 0 },
          { x: 10, y: 20 },
        ],
        true,
      ),
    ).toBe("M0 0C0 10 10 10 10 20");
    expect(edgePath([])).toBe("");
  });
});
