import { getRouteApi, Link } from "@tanstack/react-router";
import { Bot, PlugZap, RefreshCw, Wrench } from "lucide-react";
import { useState } from "react";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Checks } from "@/components/Checks";
import { Facts, Segments } from "@/components/Fields";
import { Card, CardHeader, Page } from "@/components/Page";
import { ErrorNote, ErrorState, Loading, Warnings } from "@/components/States";
import { Time } from "@/components/Time";
import { useProvider, useProviderReadiness, useProviderUses, useReferenceData, useSyncReferenceData, useTestProvider } from "@/data/providers";
import type { Provider } from "@/data/tools";
import { duration, plural } from "@/model/format";

const route = getRouteApi("/shell/integrations/$ref");

export function Integration() {
  const { ref } = route.useParams();
  const query = useProvider(ref);
  return (
    <Page
      title={ref}
      parent={{ to: "/integrations", label: "Integrations" }}
      heading={query.data && <Badge>{query.data.providerType ?? "REST"}</Badge>}
      description={query.data?.description}
      actions={query.data && <TestButton provider={query.data} />}
    >
      {query.isPending && <Loading />}
      {query.isError && <ErrorState error={query.error} onRetry={() => void query.refetch()} />}
      {query.data && <Content provider={query.data} />}
    </Page>
  );
}

function Content({ provider }: { provider: Provider }) {
  const readiness = useProviderReadiness(provider.refName);
  return (
    <>
      <Warnings items={provider.warnings} />
      <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
        <Card label="Connection">
          <CardHeader title="Connection" />
          <div className="p-4">
            <Facts
              items={[
                ["Base URL", provider.baseUrl && <code className="font-mono text-xs">{provider.baseUrl}</code>],
                ["Command", provider.command && <code className="font-mono text-xs">{provider.command}</code>],
                ["Login", provider.auth?.authType ?? "none"],
                ["Secret", provider.auth?.secretRef && `${provider.auth.secretRef}, never shown`],
                ["Timeout", provider.timeoutMs ? duration(provider.timeoutMs) : undefined],
                ["Retries", provider.maxRetries],
                ["Egress", provider.egressAllow?.join(", ")],
                ["Discovered", provider.lastDiscoverySync && <Time at={provider.lastDiscoverySync} />],
              ]}
            />
          </div>
        </Card>
        <Card label="Readiness">
          <CardHeader title={readiness.data ? (readiness.data.ready ? "Ready" : "Not ready") : "Readiness"} />
          {readiness.isPending && <Loading rows={3} />}
          {readiness.isError && <ErrorState error={readiness.error} />}
          {readiness.data && <Checks checks={readiness.data.checks} />}
        </Card>
        <Uses provider={provider} />
        {provider.referenceData?.length ? <ReferenceData provider={provider} /> : null}
      </div>
    </>
  );
}

function TestButton({ provider }: { provider: Provider }) {
  const test = useTestProvider(provider.refName);
  const result = test.data;
  return (
    <>
      {result && (
        <Badge tone={result.ok ? "ok" : "bad"}>
          {result.ok ? `Answered in ${duration(result.durationMs)}` : (result.error?.message ?? "No answer")}
        </Badge>
      )}
      {test.isError && <ErrorNote error={test.error} />}
      <Button busy={test.isPending} onClick={() => test.mutate()}>
        <PlugZap size={14} aria-hidden /> Test the connection
      </Button>
    </>
  );
}

function Uses({ provider }: { provider: Provider }) {
  const uses = useProviderUses(provider.refName).data;
  if (!uses) return null;
  return (
    <Card label="Tools">
      <CardHeader title="Tools" count={uses.tools.length} />
      {uses.tools.length === 0 && <p className="p-4 text-muted">No tool uses this integration.</p>}
      <ul className="max-h-96 divide-y overflow-y-auto">
        {uses.tools.map((tool) => (
          <li key={tool.refName}>
            <Link to="/tools/$ref" params={{ ref: tool.refName }} className="flex items-center gap-2.5 px-4 py-2 -outline-offset-2 hover:bg-hover">
              {tool.by.includes("allocation") ? (
                <Bot size={15} aria-hidden className="text-faint" />
              ) : (
                <Wrench size={15} aria-hidden className="text-faint" />
              )}
              <span className="min-w-0 flex-1 truncate font-medium">{tool.refName}</span>
              <span className="text-xs text-faint">by {tool.by.join(", ")}</span>
            </Link>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function ReferenceData({ provider }: { provider: Provider }) {
  const types = provider.referenceData?.map((source) => source.dataType) ?? [];
  const [type, setType] = useState(types[0]);
  const query = useReferenceData(provider.refName, type);
  const sync = useSyncReferenceData(provider.refName);
  const state = query.data?.syncs.find((one) => one.dataType === type);
  return (
    <Card label="Reference data">
      <CardHeader
        title="Reference data"
        count={query.data && plural(query.data.items.length, "item")}
        action={
          <Button size="sm" busy={sync.isPending} onClick={() => sync.mutate(type)}>
            <RefreshCw size={12} aria-hidden /> Sync
          </Button>
        }
      />
      <div className="flex flex-col gap-3 p-4">
        {types.length > 1 && (
          <Segments label="Data type" value={type ?? ""} onChange={setType} options={types.map((value) => ({ value, label: value }))} />
        )}
        <ErrorNote error={sync.error ?? (state?.error ? new Error(state.error) : undefined)} />
        <p className="text-xs text-faint">
          {types.length === 1 && `${type}. `}
          {state?.syncedAt && (
            <>
              Synced <Time at={state.syncedAt} />.{" "}
            </>
          )}
          Tools accept these names in place of ids.
        </p>
        <ul className="max-h-72 divide-y overflow-y-auto rounded-md border">
          {query.data?.items.map((item) => (
            <li key={JSON.stringify(item.id)} className="flex items-baseline justify-between gap-4 px-3 py-1.5">
              <span className="min-w-0 truncate">{item.name}</span>
              <code className="shrink-0 font-mono text-xs text-faint">{typeof item.id === "string" ? item.id : JSON.stringify(item.id)}</code>
            </li>
          ))}
        </ul>
      </div>
    </Card>
  );
}
