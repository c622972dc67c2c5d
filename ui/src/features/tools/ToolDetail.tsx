import { getRouteApi } from "@tanstack/react-router";
import { Badge } from "@/components/Badge";
import { SideEffectsBadge } from "@/components/Labels";
import { Page } from "@/components/Page";
import { ErrorState, Loading, Warnings } from "@/components/States";
import { TabBar } from "@/components/TabBar";
import { type Tool, useTool } from "@/data/tools";
import { lifecycle, toolTypeName } from "@/model/tools";
import { ToolExport } from "./ToolExport";
import { ToolOverview } from "./ToolOverview";
import { ToolSchemas } from "./ToolSchemas";
import { ToolSource } from "./ToolSource";
import { ToolUses } from "./ToolUses";
import { ToolVersions } from "./ToolVersions";
import { TryTool } from "./TryTool";

const route = getRouteApi("/shell/tools/$ref");

export function ToolDetail() {
  const { ref } = route.useParams();
  const search = route.useSearch();
  const query = useTool(ref, search.version);
  if (query.isPending) return <Loading rows={8} />;
  if (query.isError) {
    return (
      <Page title={ref} parent={{ to: "/tools", label: "Tools" }}>
        <ErrorState error={query.error} onRetry={() => void query.refetch()} />
      </Page>
    );
  }
  return <Loaded key={ref} tool={query.data} />;
}

function Loaded({ tool }: { tool: Tool }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const state = lifecycle(tool.enabled === false ? "disabled" : (tool.status ?? "active"));
  return (
    <Page
      title={tool.refName}
      parent={{ to: "/tools", label: "Tools" }}
      heading={
        <>
          <span className="text-faint tabular">{tool.version}</span>
          <Badge tone={state.tone}>{state.label}</Badge>
          <Badge>{toolTypeName(tool.toolType)}</Badge>
          <SideEffectsBadge value={tool.sideEffects} />
        </>
      }
      description={tool.description}
    >
      <Warnings items={tool.warnings} />
      <TabBar
        label="Tool"
        value={search.tab ?? "overview"}
        onChange={(tab) => void navigate({ search: (previous) => ({ ...previous, tab: tab as typeof search.tab }), replace: true })}
        tabs={[
          { value: "overview", label: "Overview", content: <ToolOverview tool={tool} /> },
          { value: "try", label: "Try it", content: <TryTool tool={tool} /> },
          { value: "schema", label: "Schemas", content: <ToolSchemas tool={tool} /> },
          { value: "versions", label: "Versions", content: <ToolVersions tool={tool} /> },
          { value: "uses", label: "Where used", content: <ToolUses tool={tool} /> },
          { value: "export", label: "Export", content: <ToolExport tool={tool} /> },
          { value: "source", label: "Definition", content: <ToolSource key={tool.revision} tool={tool} /> },
        ]}
      />
    </Page>
  );
}
