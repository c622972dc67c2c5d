import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { api, currentRealm, read, setRealm } from "@/api/client";
import { live } from "@/api/live";
import { logOut } from "@/api/session";

const REALM_KEY = "toolwright.realm";

/** The principal, realm and roles of the session. Fails with status 401 if nobody is logged in. */
export function useWhoami() {
  return useQuery({ queryKey: ["whoami"], queryFn: () => read(api.GET("/api/v1/ai/whoami")), staleTime: 300_000, retry: 1 });
}

export function useIsAdmin(): boolean {
  return useWhoami().data?.roles.includes("admin") ?? false;
}

export function useRealms(enabled: boolean) {
  return useQuery({ queryKey: ["realms"], queryFn: () => read(api.GET("/api/v1/ai/realms")), enabled });
}

export function useLiveStatus() {
  return useSyncExternalStore(live.onStatus, live.getStatus);
}

/** Selects the realm of the last visit before the first request. */
export function restoreRealm() {
  setRealm(localStorage.getItem(REALM_KEY) ?? undefined);
}

export function useSwitchRealm() {
  const client = useQueryClient();
  return (name: string) => {
    if (name === currentRealm()) return;
    localStorage.setItem(REALM_KEY, name);
    setRealm(name);
    void client.resetQueries();
    live.start();
  };
}

export function useLogOut() {
  const client = useQueryClient();
  return async () => {
    await logOut();
    localStorage.removeItem(REALM_KEY);
    setRealm(undefined);
    live.stop();
    client.clear();
    window.location.assign("/login");
  };
}
