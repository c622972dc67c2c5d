import { Page } from "@/components/Page";

export function NewTool() {
  return <Page title="New tool">{null}</Page>;
}
