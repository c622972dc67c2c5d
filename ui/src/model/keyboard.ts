/** Whether a key belongs to a control, such as a text field, so that it is no shortcut. */
export function isTyping(event: { target: EventTarget | null }): boolean {
  const target = event.target as { tagName?: string; isContentEditable?: boolean } | null;
  return target?.isContentEditable === true || ["INPUT", "TEXTAREA", "SELECT"].includes(target?.tagName ?? "");
}
