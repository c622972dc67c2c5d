import { Page } from "@/components/Page";

export function Integrations() {
  return <Page title="Integrations">{null}</Page>;
}
