import { getRouteApi } from "@tanstack/react-router";
import { Play } from "lucide-react";
import { Badge } from "@/components/Badge";
import { ButtonLink } from "@/components/Button";
import { SideEffectsBadge } from "@/components/Labels";
import { Page } from "@/components/Page";
import { ErrorState, Loading } from "@/components/States";
import { TabBar } from "@/components/TabBar";
import { type Workflow, useWorkflow } from "@/data/workflows";
import { lifecycle } from "@/model/tools";
import { Instances } from "./InstanceList";
import { RunWorkflow } from "./RunWorkflow";
import { WorkflowOverview } from "./WorkflowOverview";
import { WorkflowSource } from "./WorkflowSource";
import { WorkflowVersions } from "./WorkflowVersions";

const route = getRouteApi("/shell/workflows/$ref");
const PARENT = { to: "/workflows", label: "Workflows" };

export function WorkflowDetail() {
  const { ref } = route.useParams();
  const search = route.useSearch();
  const query = useWorkflow(ref, search.version);
  if (query.isPending) return <Loading rows={8} />;
  if (query.isError) {
    return (
      <Page title={ref} parent={PARENT}>
        <ErrorState error={query.error} onRetry={() => void query.refetch()} />
      </Page>
    );
  }
  return <Loaded key={`${ref}@${query.data.version}`} workflow={query.data} />;
}

function Loaded({ workflow }: { workflow: Workflow }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const state = lifecycle(workflow.enabled === false ? "disabled" : (workflow.status ?? "active"));
  const tab = search.tab ?? "graph";
  return (
    <Page
      fill={tab === "graph" || tab === "instances"}
      title={workflow.refName}
      parent={PARENT}
      heading={
        <>
          <span className="text-faint tabular">{workflow.version}</span>
          <Badge tone={state.tone}>{state.label}</Badge>
          <SideEffectsBadge value={workflow.sideEffects ?? "writes"} />
        </>
      }
      description={workflow.description}
      actions={
        tab !== "run" && (
          <ButtonLink variant="primary" to="/workflows/$ref" params={{ ref: workflow.refName }} search={{ ...search, tab: "run" }}>
            <Play size={14} aria-hidden /> Run
          </ButtonLink>
        )
      }
    >
      <TabBar
        label="Workflow"
        value={tab}
        onChange={(next) => void navigate({ search: (previous) => ({ ...previous, tab: next as typeof tab }), replace: true })}
        tabs={[
          { value: "graph", label: "Graph", content: <WorkflowOverview workflow={workflow} /> },
          { value: "run", label: "Run", content: <RunWorkflow workflow={workflow} /> },
          { value: "instances", label: "Instances", content: <Instances search={{ workflowRef: workflow.refName }} /> },
          { value: "versions", label: "Versions", content: <WorkflowVersions workflow={workflow} /> },
          { value: "source", label: "Definition", content: <WorkflowSource workflow={workflow} /> },
        ]}
      />
    </Page>
  );
}
