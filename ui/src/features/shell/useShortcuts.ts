import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { isTyping } from "@/model/keyboard";
import { NAVIGATION } from "./navigation";

const SEQUENCE_MS = 900;

/** Ctrl+K opens the palette. `g` and another key go to a screen. */
export function useShortcuts(openPalette: () => void) {
  const navigate = useNavigate();
  useEffect(() => {
    let startedAt = 0;
    function onKey(event: KeyboardEvent) {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        openPalette();
        return;
      }
      if (isTyping(event) || event.metaKey || event.ctrlKey || event.altKey) return;
      if (event.key === "g") {
        startedAt = Date.now();
      } else if (Date.now() - startedAt < SEQUENCE_MS) {
        startedAt = 0;
        const target = NAVIGATION.flatMap((group) => group.items).find((item) => item.key === event.key);
        if (target) void navigate({ to: target.to });
      }
    }
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [navigate, openPalette]);
}
