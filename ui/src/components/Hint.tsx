import { Tooltip } from "radix-ui";
import type { ReactNode } from "react";

/** A short text that appears when the pointer or the focus is on the child. */
export function Hint({ text, children, side = "top" }: { text: ReactNode; children: ReactNode; side?: "top" | "right" | "bottom" | "left" }) {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger asChild>{children}</Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Content
          side={side}
          sideOffset={6}
          collisionPadding={8}
          className="z-50 max-w-80 rounded-md bg-strong px-2 py-1 text-xs text-on-strong shadow-pop"
        >
          {text}
        </Tooltip.Content>
      </Tooltip.Portal>
    </Tooltip.Root>
  );
}
