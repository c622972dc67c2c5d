/** The choice between light and dark. Without a choice, the operating system decides. */

export type Theme = "system" | "light" | "dark";

export function parseTheme(text: string | null): Theme {
  return text === "light" || text === "dark" ? text : "system";
}
