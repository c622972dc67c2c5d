/**
 * The live connection of this tab: one stream of the realm's events, which all views share. Browsers allow six
 * connections per server, so no view opens a stream of its own for the events of the realm.
 */
import { type RealmEvent, reconnectDelay } from "@/model/live";
import { uiHeaders } from "./client";
import { readEvents } from "./sse";

export type LiveStatus = "connecting" | "live" | "offline";

const SILENCE_LIMIT_MS = 45_000;

export class LiveConnection {
  private status: LiveStatus = "connecting";
  private lastId: string | undefined;
  private abort: AbortController | undefined;
  private wake: (() => void) | undefined;
  private readonly statusListeners = new Set<() => void>();
  private readonly eventListeners = new Set<(event: RealmEvent) => void>();

  getStatus = () => this.status;

  onStatus = (listener: () => void) => {
    this.statusListeners.add(listener);
    return () => void this.statusListeners.delete(listener);
  };

  onEvent(listener: (event: RealmEvent) => void) {
    this.eventListeners.add(listener);
    return () => void this.eventListeners.delete(listener);
  }

  /** Connects, and connects again after each failure, until `stop`. */
  start() {
    this.stop();
    const abort = new AbortController();
    this.abort = abort;
    void this.run(abort.signal);
  }

  /** Connects at once instead of after the pause. */
  retry() {
    this.wake?.();
  }

  /** Ends the connection and forgets its position, because another realm or principal has other events. */
  stop() {
    this.abort?.abort();
    this.abort = undefined;
    this.lastId = undefined;
    this.setStatus("connecting");
  }

  private async run(stopped: AbortSignal) {
    let failures = 0;
    while (!stopped.aborted) {
      const opened = await this.listen(stopped).catch(() => false);
      if (stopped.aborted) return;
      failures = opened ? 0 : failures + 1;
      this.setStatus("offline");
      await this.pause(reconnectDelay(failures), stopped);
    }
  }

  /** Listens until the stream ends. Returns whether it was opened. */
  private async listen(stopped: AbortSignal): Promise<boolean> {
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE_LIMIT_MS);
    const signal = AbortSignal.any([stopped, silence.signal]);
    let opened = false;
    try {
      const query = this.lastId ? `?after=${encodeURIComponent(this.lastId)}` : "";
      const response = await fetch(`/api/v1/ai/events${query}`, { headers: uiHeaders(), credentials: "same-origin", signal });
      if (!response.ok) return false;
      opened = true;
      this.setStatus("live");
      const onBytes = () => {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_LIMIT_MS);
      };
      for await (const event of readEvents(response, onBytes)) {
        if (event.id) this.lastId = event.id;
        const parsed = JSON.parse(event.data) as RealmEvent;
        this.eventListeners.forEach((listener) => listener(parsed));
      }
      return true;
    } catch {
      return opened;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Waits for a time, or until the browser is online again, or until `retry`. */
  private pause(ms: number, stopped: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        stopped.removeEventListener("abort", done);
        window.removeEventListener("online", done);
        this.wake = undefined;
        resolve();
      };
      const timer = setTimeout(done, ms);
      stopped.addEventListener("abort", done);
      window.addEventListener("online", done);
      this.wake = done;
    });
  }

  private setStatus(status: LiveStatus) {
    if (status === this.status) return;
    this.status = status;
    this.statusListeners.forEach((listener) => listener());
  }
}

export const live = new LiveConnection();
