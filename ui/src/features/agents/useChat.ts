import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { api, read } from "@/api/client";
import { streamExecution, streamRun } from "@/api/stream";
import { EMPTY, type Exchange, type StreamEvent, type Transcript, applyEvent } from "@/model/transcript";

interface ChatOptions {
  agentRef: string;
  conversation: string | undefined;
  /** A run that was active when the page was left. */
  resumeRun: string | undefined;
  onRun: (runId: string, conversation: string | undefined) => void;
}

/** The exchanges of this visit. Earlier ones come from the stored conversation. */
export function useChat({ agentRef, conversation, resumeRun, onRun }: ChatOptions) {
  const client = useQueryClient();
  const [exchanges, setExchanges] = useState<Exchange[]>([]);
  const [error, setError] = useState<unknown>();
  const abort = useRef<AbortController>(undefined);
  const current = exchanges.at(-1)?.transcript;
  const active = current !== undefined && !current.ended;

  const onEvent = useCallback((event: StreamEvent) => setExchanges((all) => changeLast(all, (transcript) => applyEvent(transcript, event))), []);
  const finish = useCallback(() => {
    setExchanges((all) => changeLast(all, (transcript) => ({ ...transcript, ended: true })));
    void client.invalidateQueries({ queryKey: ["conversations"] });
  }, [client]);

  const follow = useCallback(
    async (start: (signal: AbortSignal) => Promise<void>) => {
      abort.current?.abort();
      const controller = new AbortController();
      abort.current = controller;
      setError(undefined);
      try {
        await start(controller.signal);
      } catch (failure) {
        setError(failure);
      }
      if (!controller.signal.aborted) finish();
    },
    [finish],
  );

  async function send(userMessage: string) {
    let known: string | undefined;
    setExchanges((all) => [...all, { key: `new-${all.length}`, userMessage, transcript: EMPTY }]);
    await follow((signal) =>
      streamExecution(
        agentRef,
        { userMessage, conversationId: conversation },
        (event) => {
          onEvent(event);
          if (known || !event.runId) return;
          known = event.runId;
          void reportRun(event.runId, conversation, onRun);
        },
        signal,
      ),
    );
  }

  // A page that is loaded while a run is active shows the run from its beginning.
  useEffect(() => {
    if (!resumeRun) return;
    setExchanges([{ key: "resumed", userMessage: "", transcript: { ...EMPTY, runId: resumeRun } }]);
    void follow((signal) => streamRun(resumeRun, onEvent, signal));
  }, [resumeRun, follow, onEvent]);

  useEffect(() => () => abort.current?.abort(), []);

  return { exchanges, active, transcript: current, error, send };
}

/** The stream names the run. The conversation of a first message is known only to the run. */
async function reportRun(runId: string, conversation: string | undefined, onRun: ChatOptions["onRun"]) {
  if (conversation) return onRun(runId, conversation);
  const run = await read(api.GET("/api/v1/ai/runs/{id}", { params: { path: { id: runId } } })).catch(() => undefined);
  onRun(runId, run?.conversationId ?? undefined);
}

function changeLast(exchanges: Exchange[], change: (transcript: Transcript) => Transcript): Exchange[] {
  const last = exchanges.at(-1);
  return last ? [...exchanges.slice(0, -1), { ...last, transcript: change(last.transcript) }] : exchanges;
}
