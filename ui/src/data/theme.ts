import { useSyncExternalStore } from "react";
import { type Theme, parseTheme } from "@/model/theme";

const KEY = "toolwright.theme";
const listeners = new Set<() => void>();

function current(): Theme {
  return parseTheme(localStorage.getItem(KEY));
}

/** Applies the stored choice. Runs before the first render. */
export function applyTheme() {
  const theme = current();
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function setTheme(theme: Theme) {
  localStorage.setItem(KEY, theme);
  applyTheme();
  listeners.forEach((listener) => listener());
}

export function useTheme(): Theme {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, current);
}
