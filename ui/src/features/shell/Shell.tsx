import { Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { Menu as MenuIcon, Search } from "lucide-react";
import { lazy, Suspense, useEffect, useState } from "react";
import { ApiError, onUnauthenticated } from "@/api/client";
import { live } from "@/api/live";
import { IconButton } from "@/components/Button";
import { ErrorState, Loading } from "@/components/States";
import { useWhoami } from "@/data/session";
import { Logo } from "./Logo";
import { OfflineBanner } from "./OfflineBanner";
import { Sidebar } from "./Sidebar";
import { useShortcuts } from "./useShortcuts";

// The first screen needs neither of them.
const Drawer = lazy(() => import("./Drawer").then((module) => ({ default: module.Drawer })));
const Palette = lazy(() => import("./Palette").then((module) => ({ default: module.Palette })));

/** The frame around every screen after the login: navigation, live connection, command palette. */
export function Shell() {
  const who = useWhoami();
  const navigate = useNavigate();
  const path = useRouterState({ select: (state) => state.location.pathname });
  const [palette, setPalette] = useState(false);
  const [menu, setMenu] = useState(false);
  useShortcuts(() => setPalette(true));
  useEffect(() => setMenu(false), [path]);

  useEffect(
    () => onUnauthenticated(() => void navigate({ to: "/login", search: { to: window.location.pathname + window.location.search } })),
    [navigate],
  );
  const principal = who.data?.principal;
  useEffect(() => {
    if (!principal) return;
    live.start();
    return () => live.stop();
  }, [principal]);

  if (who.isPending) return <Loading rows={3} />;
  if (who.isError) {
    const loggedOut = who.error instanceof ApiError && who.error.status === 401;
    return loggedOut ? null : <ErrorState error={who.error} onRetry={() => void who.refetch()} />;
  }
  return (
    <div className="flex h-full">
      <a href="#main" className="absolute -top-20 left-2 z-50 rounded-md bg-strong px-3 py-2 text-on-strong focus:top-2">
        Skip to the content
      </a>
      <div className="hidden w-56 shrink-0 border-r bg-sunken md:block">
        <Sidebar onSearch={() => setPalette(true)} />
      </div>
      <div className="flex min-w-0 flex-1 flex-col">
        <header className="flex h-12 shrink-0 items-center justify-between border-b bg-sunken px-2 md:hidden">
          <IconButton label="Menu" onClick={() => setMenu(true)}>
            <MenuIcon size={18} aria-hidden />
          </IconButton>
          <Logo />
          <IconButton label="Search" onClick={() => setPalette(true)}>
            <Search size={17} aria-hidden />
          </IconButton>
        </header>
        <OfflineBanner />
        <Outlet />
      </div>
      {menu && (
        <Suspense>
          <Drawer onClose={() => setMenu(false)} onSearch={() => setPalette(true)} />
        </Suspense>
      )}
      {palette && (
        <Suspense>
          <Palette onClose={() => setPalette(false)} />
        </Suspense>
      )}
    </div>
  );
}
