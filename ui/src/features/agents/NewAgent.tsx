import { useNavigate } from "@tanstack/react-router";
import { Page } from "@/components/Page";
import { useCreateAgent } from "@/data/agents";
import { EMPTY_AGENT, toDefinition } from "@/model/agentForm";
import { AgentForm } from "./AgentForm";

export function NewAgent() {
  const create = useCreateAgent();
  const navigate = useNavigate();
  return (
    <Page title="New agent" parent={{ to: "/agents", label: "Agents" }} description="Only a name is required. Everything can be changed later.">
      <AgentForm
        initial={EMPTY_AGENT}
        isNew
        busy={create.isPending}
        error={create.error}
        submitLabel="Create and talk to it"
        onSubmit={(form) =>
          create.mutate(toDefinition(form), {
            onSuccess: (agent) => void navigate({ to: "/agents/$ref/playground", params: { ref: agent.refName } }),
          })
        }
      />
    </Page>
  );
}
