import { Link } from "@tanstack/react-router";
import { ChevronsUpDown, Search, UserRound } from "lucide-react";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { Hint } from "@/components/Hint";
import { cx } from "@/components/cx";
import { useClientActions, useWaitingApprovals } from "@/data/approvals";
import { useIsAdmin, useLiveStatus, useRealms, useWhoami } from "@/data/session";
import { Logo } from "./Logo";
import { type Destination, NAVIGATION } from "./navigation";

const RealmMenu = lazy(() => import("./SidebarMenus").then((module) => ({ default: module.RealmMenu })));
const UserMenu = lazy(() => import("./SidebarMenus").then((module) => ({ default: module.UserMenu })));

const ITEM = "flex h-8 items-center gap-2.5 rounded-md px-2 text-[13px] font-medium text-muted hover:bg-hover hover:text-text";

export function Sidebar({ onSearch }: { onSearch: () => void }) {
  return (
    <div className="flex h-full flex-col gap-4 p-3">
      <Realm />
      <button
        type="button"
        onClick={onSearch}
        className="flex h-8 items-center gap-2 rounded-md border bg-surface px-2 text-[13px] text-faint shadow-card hover:border-line-strong"
      >
        <Search size={14} aria-hidden />
        Search
        <kbd className="ml-auto rounded border bg-sunken px-1 font-sans text-[11px]">Ctrl K</kbd>
      </button>
      <nav aria-label="Main" className="flex flex-1 flex-col gap-5 overflow-y-auto">
        {NAVIGATION.map((group) => (
          <div key={group.label}>
            <h2 className="px-2 pb-1 text-[11px] font-medium text-faint">{group.label}</h2>
            <ul className="flex flex-col gap-px">
              {group.items.map((item) => (
                <li key={item.to}>
                  <NavLink item={item} />
                </li>
              ))}
            </ul>
          </div>
        ))}
      </nav>
      <Footer />
    </div>
  );
}

function NavLink({ item }: { item: Destination }) {
  const Icon = item.icon;
  return (
    <Link to={item.to} activeOptions={{ exact: item.to === "/" }} className={ITEM} activeProps={{ className: "bg-hover !text-text" }}>
      <Icon size={16} aria-hidden strokeWidth={1.9} />
      {item.label}
      {item.to === "/inbox" && <WaitingCount />}
    </Link>
  );
}

function WaitingCount() {
  const approvals = useWaitingApprovals().data;
  const actions = useClientActions().data;
  const count = (approvals?.items.length ?? 0) + (actions?.length ?? 0);
  if (count === 0) return null;
  return (
    <span className="ml-auto grid h-[18px] min-w-[18px] place-items-center rounded-full bg-wait-soft px-1 text-[11px] font-semibold text-wait tabular">
      {count}
      {approvals?.nextCursor ? "+" : ""}
      <span className="sr-only"> waiting</span>
    </span>
  );
}

/** A button whose menu is loaded when it is opened for the first time. */
function MenuButton({ button, menu }: { button: (onClick?: () => void) => ReactNode; menu: (trigger: ReactNode) => ReactNode }) {
  const [opened, setOpened] = useState(false);
  const closed = button(() => setOpened(true));
  return opened ? <Suspense fallback={closed}>{menu(button())}</Suspense> : closed;
}

function Realm() {
  const who = useWhoami().data;
  const isAdmin = useIsAdmin();
  const realms = useRealms(isAdmin).data;
  const options = (realms?.items ?? []).map((realm) => ({ value: realm.name, label: realm.name }));
  const name = (
    <span className="flex min-w-0 items-center gap-2.5">
      <Logo />
      <span className="min-w-0 text-left leading-tight">
        <span className="block text-[13px] font-semibold">Toolwright</span>
        <span className="block truncate text-[11.5px] text-faint">{who?.realm}</span>
      </span>
    </span>
  );
  if (options.length < 2) return <div className="flex h-10 items-center px-1">{name}</div>;
  return (
    <MenuButton
      button={(onClick) => (
        <button
          type="button"
          aria-haspopup="menu"
          aria-label={`Realm ${who?.realm}`}
          onClick={onClick}
          className="flex h-10 items-center justify-between rounded-md px-1 hover:bg-hover"
        >
          {name}
          <ChevronsUpDown size={14} className="text-faint" aria-hidden />
        </button>
      )}
      menu={(trigger) => <RealmMenu trigger={trigger} realm={who?.realm ?? ""} options={options} />}
    />
  );
}

function Footer() {
  const who = useWhoami().data;
  return (
    <div className="flex items-center justify-between gap-1">
      <MenuButton
        button={(onClick) => (
          <button type="button" aria-haspopup="menu" onClick={onClick} className={cx(ITEM, "min-w-0 flex-1")}>
            <UserRound size={16} aria-hidden />
            <span className="truncate">{who?.principal}</span>
          </button>
        )}
        menu={(trigger) => <UserMenu trigger={trigger} />}
      />
      <LiveDot />
    </div>
  );
}

const LIVE = {
  live: { dot: "bg-ok", text: "Live: changes appear by themselves" },
  connecting: { dot: "bg-faint animate-pulse-dot", text: "Connecting to the server" },
  offline: { dot: "bg-bad animate-pulse-dot", text: "Not connected. What you see may be old; the UI connects again by itself." },
};

function LiveDot() {
  const info = LIVE[useLiveStatus()];
  return (
    <Hint text={info.text} side="right">
      <span role="status" tabIndex={0} className="grid size-8 place-items-center rounded-md">
        <span aria-hidden className={cx("size-2 rounded-full", info.dot)} />
        <span className="sr-only">{info.text}</span>
      </span>
    </Hint>
  );
}
