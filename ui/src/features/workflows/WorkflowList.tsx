import { getRouteApi, Link } from "@tanstack/react-router";
import { Plus, TriangleAlert, Workflow as WorkflowIcon } from "lucide-react";
import { Badge } from "@/components/Badge";
import { Button, ButtonLink } from "@/components/Button";
import { cx } from "@/components/cx";
import { SearchInput } from "@/components/Fields";
import { NameFilter } from "@/components/Filters";
import { Page } from "@/components/Page";
import { QueryList, useItems } from "@/components/QueryList";
import { Empty } from "@/components/States";
import { Time } from "@/components/Time";
import { type Workflow, useWorkflowCount, useWorkflows } from "@/data/workflows";
import { firstLine, plural } from "@/model/format";
import { lifecycle } from "@/model/tools";
import { WORKFLOW_STATUSES, parseWorkflowSearch } from "@/model/workflowFilters";

const route = getRouteApi("/shell/workflows");
const COLUMNS = "grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 px-4 md:grid-cols-[minmax(0,1fr)_5rem_5rem_9rem_7rem]";
const HEADER = [{ name: "Workflow" }, { name: "Steps" }, { name: "Version" }, { name: "State" }, { name: "Changed", right: true }];

export function WorkflowList() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useWorkflows(search);
  const workflows = useItems(query);
  const total = useWorkflowCount().data;
  const set = (change: Record<string, string>) => void navigate({ search: parseWorkflowSearch({ ...search, ...change }), replace: true });
  const clear = () => void navigate({ search: {} });
  const filtered = Object.keys(search).length > 0;
  return (
    <Page
      fill
      title="Workflows"
      heading={total !== undefined && <span className="text-faint tabular">{plural(total, "workflow")}</span>}
      actions={
        <>
          <ButtonLink to="/instances">Instances</ButtonLink>
          <ButtonLink to="/new-workflow" variant="primary">
            <Plus size={15} aria-hidden /> New workflow
          </ButtonLink>
        </>
      }
    >
      <div className="flex flex-wrap items-center gap-2 pb-3">
        <SearchInput label="Search names and descriptions" value={search.text ?? ""} onChange={(text) => set({ text })} className="w-full sm:w-72" />
        <NameFilter label="State" any="Any state" value={search.status} names={[...WORKFLOW_STATUSES]} onChange={(status) => set({ status })} />
        {filtered && (
          <Button variant="ghost" onClick={clear}>
            Clear
          </Button>
        )}
      </div>
      <QueryList
        query={query}
        items={workflows}
        label="Workflows"
        rowHeight={53}
        columns={COLUMNS}
        header={HEADER}
        keyOf={keyOf}
        row={renderRow}
        filtered={filtered}
        onClear={clear}
        empty={<NoWorkflows />}
      />
    </Page>
  );
}

function NoWorkflows() {
  return (
    <Empty icon={WorkflowIcon} title="No workflow yet" action={<ButtonLink to="/new-workflow">Write the first workflow</ButtonLink>}>
      A workflow is a graph of steps. Each step calls a tool, an agent or another workflow, or decides, waits or transforms data.
    </Empty>
  );
}

const keyOf = (workflow: Workflow) => workflow.refName;
const renderRow = (workflow: Workflow) => <Row workflow={workflow} />;

function Row({ workflow }: { workflow: Workflow }) {
  const state = lifecycle(workflow.enabled === false ? "disabled" : (workflow.status ?? "active"));
  return (
    <Link to="/workflows/$ref" params={{ ref: workflow.refName }} className={cx(COLUMNS, "h-full -outline-offset-2")}>
      <span className="min-w-0">
        <span className="block truncate font-medium">{workflow.refName}</span>
        <span className="block truncate text-xs text-faint">{firstLine(workflow.description ?? workflow.name ?? "")}</span>
      </span>
      <span className="hidden text-muted tabular md:block">{workflow.steps.length}</span>
      <span className="hidden text-muted tabular md:block">{workflow.version}</span>
      <span className="flex gap-1.5">
        <Badge tone={state.tone}>{state.label}</Badge>
        {workflow.warnings && workflow.warnings.length > 0 && (
          <Badge tone="warn" title={workflow.warnings.join("\n")}>
            <TriangleAlert size={12} aria-hidden /> {workflow.warnings.length}
          </Badge>
        )}
      </span>
      <Time at={workflow.updatedAt} className="hidden text-right text-muted md:block" />
    </Link>
  );
}
