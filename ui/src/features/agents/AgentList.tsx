import { Page } from "@/components/Page";

export function AgentList() {
  return <Page title="Agents">{null}</Page>;
}
