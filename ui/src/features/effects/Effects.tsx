import { Page } from "@/components/Page";

export function Effects() {
  return <Page title="Effects">{null}</Page>;
}
