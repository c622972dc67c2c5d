import { Page } from "@/components/Page";

export function AgentDetail() {
  return <Page title="Agent">{null}</Page>;
}
