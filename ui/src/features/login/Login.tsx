import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { logIn } from "@/api/session";
import { Button } from "@/components/Button";
import { Field, Input } from "@/components/Fields";
import { ErrorNote } from "@/components/States";
import { loginTarget, takeToken } from "@/model/login";
import { Logo } from "../shell/Logo";

const route = getRouteApi("/login");

export function Login() {
  const target = loginTarget(route.useSearch().to);
  const navigate = useNavigate();
  const client = useQueryClient();
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const usedLink = useRef(false);

  async function submit(credential: { key: string } | { link: string }) {
    setBusy(true);
    setError(undefined);
    try {
      await logIn(credential);
      client.clear();
      await navigate({ href: target, replace: true });
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }

  useEffect(() => {
    document.title = "Log in · Toolwright";
    const token = takeToken(window.location.hash);
    if (!token || usedLink.current) return;
    usedLink.current = true;
    // The token must not stay in the history of the browser.
    window.history.replaceState(null, "", window.location.pathname + window.location.search);
    void submit({ link: token });
  });

  return (
    <main className="grid min-h-full place-items-center px-4 py-10">
      <form
        className="w-full max-w-sm rounded-xl border bg-surface p-7 shadow-pop"
        onSubmit={(event) => {
          event.preventDefault();
          void submit({ key });
        }}
      >
        <div className="mb-6 flex items-center gap-3">
          <Logo />
          <h1 className="text-base font-semibold">Log in to Toolwright</h1>
        </div>
        <div className="flex flex-col gap-4">
          <Field label="API key" hint="The browser gets a session of seven days. The key itself is not stored in it.">
            {(id, note) => (
              <Input
                id={id}
                aria-describedby={note}
                type="password"
                autoComplete="current-password"
                autoFocus
                required
                value={key}
                onChange={(event) => setKey(event.target.value)}
                className="h-9"
              />
            )}
          </Field>
          {error !== undefined && <ErrorNote error={error} />}
          <Button type="submit" variant="primary" size="lg" busy={busy}>
            {busy ? "Logging in…" : "Log in"}
          </Button>
        </div>
        <p className="mt-5 border-t pt-4 text-xs text-muted">
          On the machine of the server you need no key: open the link that <code className="font-mono">toolwright serve</code> prints when it starts.
          It works once, for 15 minutes.
        </p>
      </form>
    </main>
  );
}
