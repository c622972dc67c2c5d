import { Bot, House, Inbox, type LucideIcon, Network, Plug, Radar, Waypoints, Workflow, Wrench, Zap } from "lucide-react";

export interface Destination {
  to: "/" | "/inbox" | "/runs" | "/instances" | "/effects" | "/tools" | "/integrations" | "/agents" | "/workflows" | "/reach";
  label: string;
  icon: LucideIcon;
  /** The second key after `g`. */
  key: string;
}

export const NAVIGATION: { label: string; items: Destination[] }[] = [
  {
    label: "Operate",
    items: [
      { to: "/", label: "Home", icon: House, key: "h" },
      { to: "/inbox", label: "Inbox", icon: Inbox, key: "i" },
      { to: "/runs", label: "Runs", icon: Waypoints, key: "r" },
      { to: "/instances", label: "Instances", icon: Network, key: "s" },
      { to: "/effects", label: "Effects", icon: Zap, key: "e" },
    ],
  },
  {
    label: "Build",
    items: [
      { to: "/agents", label: "Agents", icon: Bot, key: "a" },
      { to: "/workflows", label: "Workflows", icon: Workflow, key: "w" },
      { to: "/tools", label: "Tools", icon: Wrench, key: "t" },
      { to: "/integrations", label: "Integrations", icon: Plug, key: "n" },
      { to: "/reach", label: "Reach", icon: Radar, key: "m" },
    ],
  },
];
