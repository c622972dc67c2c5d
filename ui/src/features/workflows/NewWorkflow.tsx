import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Button } from "@/components/Button";
import { Page } from "@/components/Page";
import { ErrorNote } from "@/components/States";
import { useCreateYaml } from "@/data/workflows";
import { plural } from "@/model/format";
import { useYamlCheck } from "./useYamlCheck";
import { YamlEditor } from "./YamlEditor";

const TEMPLATE = `refName: example/greet
description: Greets a person, and waits for the answer.
version: 1.0.0
inputSchema:
  type: object
  required: [name]
  properties:
    name: { type: string }
steps:
- name: greeting
  handlerRef: quantum.flow.transform
  input: { text: "Hello \${input.name}" }
- name: answer
  handlerRef: quantum.flow.waitForSignal
  dependsOn: [greeting]
  input: { signal: answer }
output:
  greeting: "\${greeting.text}"
  answer: "\${answer}"
`;

export function NewWorkflow() {
  const [text, setText] = useState(TEMPLATE);
  const check = useYamlCheck(text);
  const create = useCreateYaml();
  const navigate = useNavigate();
  const errors = check.issues.filter((issue) => issue.severity === "error").length;
  return (
    <Page
      title="New workflow"
      parent={{ to: "/workflows", label: "Workflows" }}
      description="The definition as YAML. It is checked while you write, and nothing is saved before you create it."
      actions={
        <Button
          variant="primary"
          busy={create.isPending}
          disabledReason={errors > 0 ? `Correct ${plural(errors, "error")} first` : undefined}
          onClick={() => create.mutate(text, { onSuccess: ({ refName }) => void navigate({ to: "/workflows/$ref", params: { ref: refName } }) })}
        >
          Create
        </Button>
      }
    >
      <div className="flex flex-col gap-3">
        <ErrorNote error={create.error ?? check.error} />
        <YamlEditor label="Definition as YAML" text={text} onChange={setText} issues={check.issues} />
      </div>
    </Page>
  );
}
