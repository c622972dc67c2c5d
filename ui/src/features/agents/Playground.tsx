import { Page } from "@/components/Page";

export function Playground() {
  return <Page title="Playground">{null}</Page>;
}
