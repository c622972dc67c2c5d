import { Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { Menu as MenuIcon, Search, X } from "lucide-react";
import { Dialog } from "radix-ui";
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
      <Dialog.Root open={menu} onOpenChange={setMenu}>
        <Dialog.Portal>
          <Dialog.Overlay className="fixed inset-0 z-30 bg-scrim" />
          <Dialog.Content aria-describedby="" className="fixed inset-y-0 left-0 z-30 w-64 bg-sunken shadow-pop">
            <Dialog.Title className="sr-only">Navigation</Dialog.Title>
            <Dialog.Close asChild>
              <IconButton label="Close the menu" className="absolute top-2 right-2 z-10">
                <X size={16} aria-hidden />
              </IconButton>
            </Dialog.Close>
            <Sidebar
              onSearch={() => {
                setMenu(false);
                setPalette(true);
              }}
            />
          </Dialog.Content>
        </Dialog.Portal>
      </Dialog.Root>
      {palette && (
        <Suspense>
          <Palette onClose={() => setPalette(false)} />
        </Suspense>
      )}
    </div>
  );
}
