import { X } from "lucide-react";
import { Dialog } from "radix-ui";
import { IconButton } from "@/components/Button";
import { Sidebar } from "./Sidebar";

/** The navigation on a phone. */
export function Drawer({ onClose, onSearch }: { onClose: () => void; onSearch: () => void }) {
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
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
              onClose();
              onSearch();
            }}
          />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
