import { X } from "lucide-react";
import { Dialog as Radix, DropdownMenu } from "radix-ui";
import type { ReactNode } from "react";
import { IconButton } from "./Button";
import { cx } from "./cx";

/** Focuses the first field, or the dialog itself. The close button is skipped, although it comes first. */
function focusFirstField(event: Event) {
  event.preventDefault();
  const dialog = event.currentTarget as HTMLElement;
  (dialog.querySelector<HTMLElement>("input:not(:disabled), textarea, select") ?? dialog).focus();
}

const WIDTHS = { md: "max-w-lg", lg: "max-w-3xl" };

interface DialogProps {
  open: boolean;
  onClose: () => void;
  title: string;
  description?: ReactNode;
  width?: keyof typeof WIDTHS;
  footer?: ReactNode;
  children: ReactNode;
}

export function Dialog({ open, onClose, title, description, width = "md", footer, children }: DialogProps) {
  return (
    <Radix.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-scrim" />
        <Radix.Content
          aria-describedby={description ? undefined : ""}
          tabIndex={-1}
          onOpenAutoFocus={focusFirstField}
          className={cx(
            "fixed top-1/2 left-1/2 z-40 flex max-h-[86vh] w-[calc(100vw-2rem)] -translate-x-1/2 -translate-y-1/2 flex-col rounded-xl bg-surface shadow-pop",
            WIDTHS[width],
          )}
        >
          <header className="flex items-start justify-between gap-4 px-5 pt-4 pb-3">
            <div>
              <Radix.Title className="text-[15px] font-semibold">{title}</Radix.Title>
              {description && <Radix.Description className="mt-0.5 text-muted">{description}</Radix.Description>}
            </div>
            <Radix.Close asChild>
              <IconButton label="Close" size="icon-sm">
                <X size={15} aria-hidden />
              </IconButton>
            </Radix.Close>
          </header>
          <div className="min-h-0 flex-1 overflow-y-auto px-5 pb-5">{children}</div>
          {footer && <footer className="flex flex-wrap justify-end gap-2 border-t px-5 py-3">{footer}</footer>}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

interface MenuProps {
  trigger: ReactNode;
  children: ReactNode;
  align?: "start" | "end";
  defaultOpen?: boolean;
}

export function Menu({ trigger, children, align = "end", defaultOpen = false }: MenuProps) {
  return (
    <DropdownMenu.Root defaultOpen={defaultOpen}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content align={align} sideOffset={6} collisionPadding={8} className="z-50 min-w-48 rounded-lg bg-surface p-1 shadow-pop">
          {children}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

export function MenuItem({ onSelect, children, danger }: { onSelect: () => void; children: ReactNode; danger?: boolean }) {
  return (
    <DropdownMenu.Item
      onSelect={onSelect}
      className={cx(
        "flex h-8 cursor-pointer items-center gap-2 rounded-md px-2 text-[13px] outline-none data-highlighted:bg-hover",
        danger && "text-bad",
      )}
    >
      {children}
    </DropdownMenu.Item>
  );
}

export function MenuChoice({
  value,
  onChange,
  options,
  label,
}: {
  value: string;
  onChange: (value: string) => void;
  options: { value: string; label: ReactNode }[];
  label: string;
}) {
  return (
    <>
      <DropdownMenu.Label className="px-2 pt-1.5 pb-1 text-[11px] font-medium text-faint">{label}</DropdownMenu.Label>
      <DropdownMenu.RadioGroup value={value} onValueChange={onChange}>
        {options.map((option) => (
          <DropdownMenu.RadioItem
            key={option.value}
            value={option.value}
            className="flex h-8 cursor-pointer items-center justify-between gap-2 rounded-md px-2 text-[13px] outline-none data-highlighted:bg-hover data-[state=checked]:font-medium"
          >
            <span className="flex items-center gap-2">{option.label}</span>
            <DropdownMenu.ItemIndicator className="text-accent">✓</DropdownMenu.ItemIndicator>
          </DropdownMenu.RadioItem>
        ))}
      </DropdownMenu.RadioGroup>
    </>
  );
}

export function MenuLine() {
  return <DropdownMenu.Separator className="my-1 h-px bg-line" />;
}

export function MenuNote({ children }: { children: ReactNode }) {
  return <DropdownMenu.Label className="px-2 py-1.5 text-xs text-faint">{children}</DropdownMenu.Label>;
}
