import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { NotFound } from "./features/shell/NotFound";
import { ScreenError } from "./features/shell/ScreenError";
import { Shell } from "./features/shell/Shell";
import { parseEffectSearch } from "./model/effectFilters";
import { parseInstanceSearch } from "./model/instanceFilters";
import { parseRunSearch } from "./model/runFilters";
import { compact, integer, oneOf, text } from "./model/search";
import { parseToolSearch } from "./model/toolFilters";
import { parseWorkflowSearch } from "./model/workflowFilters";

const rootRoute = createRootRoute({ notFoundComponent: NotFound });

const loginRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "login",
  validateSearch: (search: Record<string, unknown>) => compact({ to: text(search.to) }),
  component: lazyRouteComponent(() => import("./features/login/Login"), "Login"),
});

/** Everything that needs a login is inside of the shell. */
const shellRoute = createRoute({ getParentRoute: () => rootRoute, id: "shell", component: Shell });

const homeRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/",
  component: lazyRouteComponent(() => import("./features/home/Home"), "Home"),
});

export const INBOX_TABS = ["waiting", "client", "decided"] as const;
export type InboxTab = (typeof INBOX_TABS)[number];

const inboxRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "inbox",
  validateSearch: (search: Record<string, unknown>) => compact({ tab: oneOf(search.tab, INBOX_TABS), call: text(search.call) }),
  component: lazyRouteComponent(() => import("./features/inbox/Inbox"), "Inbox"),
});

const runsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "runs",
  validateSearch: parseRunSearch,
  component: lazyRouteComponent(() => import("./features/runs/RunList"), "RunList"),
});

export const RUN_TABS = ["entry", "state", "result"] as const;
export type RunTab = (typeof RUN_TABS)[number];

const runRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "runs/$id",
  validateSearch: (search: Record<string, unknown>) => compact({ at: integer(search.at), tab: oneOf(search.tab, RUN_TABS) }),
  component: lazyRouteComponent(() => import("./features/runs/RunDetail"), "RunDetail"),
});

const compareRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "runs/$id/compare/$other",
  component: lazyRouteComponent(() => import("./features/runs/CompareRuns"), "CompareRuns"),
});

const effectsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "effects",
  validateSearch: parseEffectSearch,
  component: lazyRouteComponent(() => import("./features/effects/Effects"), "Effects"),
});

const toolsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "tools",
  validateSearch: parseToolSearch,
  component: lazyRouteComponent(() => import("./features/tools/ToolList"), "ToolList"),
});

const newToolRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "new-tool",
  component: lazyRouteComponent(() => import("./features/tools/NewTool"), "NewTool"),
});

export const TOOL_TABS = ["overview", "try", "schema", "versions", "uses", "export", "source"] as const;

const toolRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "tools/$ref",
  validateSearch: (search: Record<string, unknown>) => compact({ tab: oneOf(search.tab, TOOL_TABS), version: text(search.version) }),
  component: lazyRouteComponent(() => import("./features/tools/ToolDetail"), "ToolDetail"),
});

const integrationsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "integrations",
  component: lazyRouteComponent(() => import("./features/integrations/Integrations"), "Integrations"),
});

const integrationRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "integrations/$ref",
  component: lazyRouteComponent(() => import("./features/integrations/Integration"), "Integration"),
});

const agentsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "agents",
  component: lazyRouteComponent(() => import("./features/agents/AgentList"), "AgentList"),
});

const newAgentRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "new-agent",
  component: lazyRouteComponent(() => import("./features/agents/NewAgent"), "NewAgent"),
});

export const AGENT_TABS = ["overview", "settings", "tools", "limits", "source"] as const;

const agentRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "agents/$ref",
  validateSearch: (search: Record<string, unknown>) => compact({ tab: oneOf(search.tab, AGENT_TABS) }),
  component: lazyRouteComponent(() => import("./features/agents/AgentDetail"), "AgentDetail"),
});

const playgroundRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "agents/$ref/playground",
  validateSearch: (search: Record<string, unknown>) => compact({ conversation: text(search.conversation), run: text(search.run) }),
  component: lazyRouteComponent(() => import("./features/agents/Playground"), "Playground"),
});

const workflowsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "workflows",
  validateSearch: parseWorkflowSearch,
  component: lazyRouteComponent(() => import("./features/workflows/WorkflowList"), "WorkflowList"),
});

const newWorkflowRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "new-workflow",
  component: lazyRouteComponent(() => import("./features/workflows/NewWorkflow"), "NewWorkflow"),
});

const WORKFLOW_TABS = ["graph", "run", "instances", "versions", "source"] as const;

const workflowRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "workflows/$ref",
  validateSearch: (search: Record<string, unknown>) =>
    compact({ tab: oneOf(search.tab, WORKFLOW_TABS), version: text(search.version), step: text(search.step) }),
  component: lazyRouteComponent(() => import("./features/workflows/WorkflowDetail"), "WorkflowDetail"),
});

const instancesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "instances",
  validateSearch: parseInstanceSearch,
  component: lazyRouteComponent(() => import("./features/workflows/InstanceList"), "InstanceList"),
});

const INSTANCE_TABS = ["step", "result"] as const;
export type InstanceTab = (typeof INSTANCE_TABS)[number];

const instanceRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "instances/$id",
  validateSearch: (search: Record<string, unknown>) =>
    compact({ step: text(search.step), item: integer(search.item), tab: oneOf(search.tab, INSTANCE_TABS) }),
  component: lazyRouteComponent(() => import("./features/workflows/InstanceDetail"), "InstanceDetail"),
});

const reachRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "reach",
  validateSearch: (search: Record<string, unknown>) => compact({ node: text(search.node), tools: oneOf(search.tools, ["writes", "unapproved"]) }),
  component: lazyRouteComponent(() => import("./features/reach/ReachMap"), "ReachMap"),
});

const routeTree = rootRoute.addChildren([
  loginRoute,
  shellRoute.addChildren([
    homeRoute,
    inboxRoute,
    runsRoute,
    runRoute,
    compareRoute,
    effectsRoute,
    toolsRoute,
    newToolRoute,
    toolRoute,
    integrationsRoute,
    integrationRoute,
    agentsRoute,
    newAgentRoute,
    agentRoute,
    playgroundRoute,
    workflowsRoute,
    newWorkflowRoute,
    workflowRoute,
    instancesRoute,
    instanceRoute,
    reachRoute,
  ]),
]);

export const router = createRouter({
  routeTree,
  defaultPreload: "intent",
  defaultErrorComponent: ScreenError,
  defaultNotFoundComponent: NotFound,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
