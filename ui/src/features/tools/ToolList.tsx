import { Page } from "@/components/Page";

export function ToolList() {
  return <Page title="Tools">{null}</Page>;
}
