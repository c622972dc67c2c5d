import { cx } from "@/components/cx";
import { Facts } from "@/components/Fields";
import { Card, CardHeader } from "@/components/Page";
import { ErrorState, Loading } from "@/components/States";
import { type Agent, useCostEstimate } from "@/data/agents";
import { cost, count } from "@/model/format";

/** What one run may cost at most, and which limit decides it. */
export function AgentLimits({ agent }: { agent: Agent }) {
  const query = useCostEstimate(agent.refName);
  if (query.isPending) return <Loading />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  const estimate = query.data;
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
      <Card label="Worst case" className="p-5">
        <p className="text-xs text-faint">One run costs at most</p>
        <p className="mt-1 text-3xl font-semibold tracking-tight tabular">
          {estimate.worstCaseUsd == null ? "not known" : cost(estimate.worstCaseUsd)}
        </p>
        {estimate.bindingLimit && (
          <p className="mt-1 text-muted">
            decided by <code className="font-mono text-xs">{estimate.bindingLimit}</code>
          </p>
        )}
        <table className="mt-5 w-full text-left">
          <thead>
            <tr className="border-b text-xs text-faint">
              <th scope="col" className="pb-1.5 font-normal">
                Limit
              </th>
              <th scope="col" className="pb-1.5 text-right font-normal">
                Value
              </th>
              <th scope="col" className="pb-1.5 text-right font-normal">
                Bound
              </th>
            </tr>
          </thead>
          <tbody>
            {estimate.bounds.map((bound) => (
              <tr
                key={bound.limit}
                title={bound.formula}
                className={cx("border-b last:border-b-0", bound.limit === estimate.bindingLimit && "font-medium")}
              >
                <th scope="row" className="py-2 font-mono text-xs font-[inherit]">
                  {bound.limit}
                </th>
                <td className="py-2 text-right tabular">{count(bound.value)}</td>
                <td className="py-2 text-right tabular">{bound.usd == null ? "–" : cost(bound.usd)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Card>
      <div className="flex flex-col gap-4">
        <Card label="Models">
          <CardHeader title="Models" />
          <div className="flex flex-col gap-4 p-4">
            {estimate.models.map((model) => (
              <Facts
                key={model.role + model.name}
                items={[
                  ["Role", model.role],
                  ["Model", model.name],
                  ["Price per 1k", model.price ? `${cost(model.price.input)} in, ${cost(model.price.output)} out` : "not known"],
                  ["Context", model.contextTokens ? `${count(model.contextTokens)} tokens` : undefined],
                  ["One call", model.callUsd == null ? "not known" : `at most ${cost(model.callUsd)}`],
                ]}
              />
            ))}
          </div>
        </Card>
        <Card label="Assumptions">
          <CardHeader title="Assumptions" />
          <ul className="list-disc space-y-1 p-4 pl-8 text-muted">
            {[...estimate.unknown.map((one) => `Not known: ${one}`), ...estimate.assumptions].map((assumption) => (
              <li key={assumption}>{assumption.replaceAll("`", "")}</li>
            ))}
          </ul>
        </Card>
      </div>
    </div>
  );
}
