import { Compass } from "lucide-react";
import { ButtonLink } from "@/components/Button";
import { Empty } from "@/components/States";

export function NotFound() {
  return (
    <main className="flex-1">
      <Empty icon={Compass} title="There is no such page" action={<ButtonLink to="/">Go home</ButtonLink>}>
        The address may be mistyped, or it belongs to another version of the server.
      </Empty>
    </main>
  );
}
