import { useState } from "react";
import { JsonView } from "@/components/Code";
import { CopyTextButton } from "@/components/Copy";
import { Segments } from "@/components/Fields";
import { ErrorState, Loading } from "@/components/States";
import { type Tool, useToolExport } from "@/data/tools";

const FORMATS = ["universal", "openai", "anthropic", "gemini", "langchain", "mcp"] as const;
type Format = (typeof FORMATS)[number];

const NAMES: Record<Format, string> = {
  universal: "Universal",
  openai: "OpenAI",
  anthropic: "Anthropic",
  gemini: "Gemini",
  langchain: "LangChain",
  mcp: "MCP",
};

export function ToolExport({ tool }: { tool: Tool }) {
  const [format, setFormat] = useState<Format>("openai");
  const query = useToolExport(tool.refName, format);
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <div className="max-w-full overflow-x-auto">
          <Segments label="Format" value={format} onChange={setFormat} options={FORMATS.map((value) => ({ value, label: NAMES[value] }))} />
        </div>
        {query.data !== undefined && <CopyTextButton text={JSON.stringify(query.data, null, 2)}>Copy</CopyTextButton>}
      </div>
      {query.isPending && <Loading />}
      {query.isError && <ErrorState error={query.error} onRetry={() => void query.refetch()} />}
      {query.data !== undefined && <JsonView value={query.data} label={`${NAMES[format]} definition`} />}
    </div>
  );
}
