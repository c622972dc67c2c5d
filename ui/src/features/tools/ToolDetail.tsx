import { Page } from "@/components/Page";

export function ToolDetail() {
  return <Page title="Tool">{null}</Page>;
}
