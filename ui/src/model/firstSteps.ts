/** The first steps of a new user. Each is done when the server's data says so. */

export interface Progress {
  hasModel: boolean;
  tools: number;
  agents: number;
  agentRuns: number;
  decisions: number;
}

export interface Step {
  id: "model" | "tool" | "agent" | "run" | "decision";
  title: string;
  detail: string;
  done: boolean;
}

export function firstSteps(progress: Progress): Step[] {
  return [
    {
      id: "model",
      title: "Connect a model",
      detail: "Start the server with ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY. Without a key, the demo's agents follow a script.",
      done: progress.hasModel,
    },
    { id: "tool", title: "Add a tool", detail: "Import an OpenAPI document, or describe one HTTP request.", done: progress.tools > 0 },
    { id: "agent", title: "Make an agent", detail: "Instructions, a model and the tools that it may use.", done: progress.agents > 0 },
    { id: "run", title: "Run it", detail: "Ask the agent something in the playground and watch each step.", done: progress.agentRuns > 0 },
    {
      id: "decision",
      title: "Decide on a call",
      detail: "Let an agent request a write, then approve or deny it in the inbox.",
      done: progress.decisions > 0,
    },
  ];
}
