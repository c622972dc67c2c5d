import { Link } from "@tanstack/react-router";
import { Plug } from "lucide-react";
import { Badge } from "@/components/Badge";
import { ButtonLink } from "@/components/Button";
import { Page } from "@/components/Page";
import { Empty, ErrorState, Loading } from "@/components/States";
import { useProviderReadiness, useProviders } from "@/data/providers";
import type { Provider } from "@/data/tools";

export function Integrations() {
  const query = useProviders();
  const providers = query.data?.items ?? [];
  return (
    <Page
      title="Integrations"
      description="The external systems that tools use: where they are, how the server logs in, and what they publish as reference data."
    >
      {query.isPending && <Loading />}
      {query.isError && <ErrorState error={query.error} onRetry={() => void query.refetch()} />}
      {query.isSuccess && providers.length === 0 && (
        <Empty icon={Plug} title="No integration yet" action={<ButtonLink to="/new-tool">Import an API</ButtonLink>}>
          An import of an OpenAPI document creates the integration and its tools together.
        </Empty>
      )}
      <ul className="grid grid-cols-1 gap-4 sm:grid-cols-2 xl:grid-cols-3">
        {providers.map((provider) => (
          <ProviderCard key={provider.refName} provider={provider} />
        ))}
      </ul>
    </Page>
  );
}

const AUTH: Record<string, string> = { none: "No login", bearer: "Bearer token", api_key: "API key", oauth2: "OAuth 2", mtls: "Client certificate" };

function ProviderCard({ provider }: { provider: Provider }) {
  const readiness = useProviderReadiness(provider.refName).data;
  const failed = readiness?.checks.find((check) => check.status === "failed");
  return (
    <li className="relative flex flex-col gap-3 rounded-lg border bg-surface p-4 shadow-card hover:border-line-strong">
      <div className="flex items-start justify-between gap-3">
        <div className="min-w-0">
          <Link to="/integrations/$ref" params={{ ref: provider.refName }} className="font-semibold before:absolute before:inset-0">
            {provider.refName}
          </Link>
          <p className="truncate font-mono text-xs text-faint">{provider.baseUrl ?? provider.command ?? "–"}</p>
        </div>
        {readiness && <Badge tone={readiness.ready ? "ok" : "bad"}>{readiness.ready ? "Ready" : "Not ready"}</Badge>}
      </div>
      {provider.description && <p className="line-clamp-2 text-muted">{provider.description}</p>}
      <p className="mt-auto flex flex-wrap gap-1.5">
        <Badge>{provider.providerType ?? "REST"}</Badge>
        <Badge>{AUTH[provider.auth?.authType ?? "none"] ?? provider.auth?.authType}</Badge>
        {provider.enabled === false && <Badge tone="warn">Disabled</Badge>}
        {provider.referenceData?.length ? <Badge>reference data</Badge> : null}
      </p>
      {failed && <p className="text-xs text-bad">{failed.message.replaceAll("`", "")}</p>}
    </li>
  );
}
