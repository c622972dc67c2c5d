import { LogOut, Monitor, Moon, Sun } from "lucide-react";
import type { ReactNode } from "react";
import { Menu, MenuChoice, MenuItem, MenuLine, MenuNote } from "@/components/Overlay";
import { useServer } from "@/data/server";
import { useLogOut, useSwitchRealm } from "@/data/session";
import { setTheme, useTheme } from "@/data/theme";
import type { Theme } from "@/model/theme";

interface RealmMenuProps {
  trigger: ReactNode;
  realm: string;
  options: { value: string; label: string }[];
}

export function RealmMenu({ trigger, realm, options }: RealmMenuProps) {
  const switchRealm = useSwitchRealm();
  return (
    <Menu defaultOpen align="start" trigger={trigger}>
      <MenuChoice label="Realm" value={realm} onChange={switchRealm} options={options} />
    </Menu>
  );
}

const THEMES: { value: Theme; label: ReactNode }[] = [
  { value: "system", label: <ThemeLabel icon={<Monitor size={14} aria-hidden />} text="As the system" /> },
  { value: "light", label: <ThemeLabel icon={<Sun size={14} aria-hidden />} text="Light" /> },
  { value: "dark", label: <ThemeLabel icon={<Moon size={14} aria-hidden />} text="Dark" /> },
];

function ThemeLabel({ icon, text }: { icon: ReactNode; text: string }) {
  return (
    <>
      {icon} {text}
    </>
  );
}

export function UserMenu({ trigger }: { trigger: ReactNode }) {
  const server = useServer().data;
  const theme = useTheme();
  const logOut = useLogOut();
  return (
    <Menu defaultOpen align="start" trigger={trigger}>
      <MenuChoice label="Theme" value={theme} onChange={(value) => setTheme(value as Theme)} options={THEMES} />
      <MenuLine />
      {server && <MenuNote>Toolwright {server.version}</MenuNote>}
      <MenuItem onSelect={() => void logOut()}>
        <LogOut size={14} aria-hidden /> Log out
      </MenuItem>
    </Menu>
  );
}
