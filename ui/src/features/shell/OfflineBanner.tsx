import { CloudOff } from "lucide-react";
import { useEffect, useState } from "react";
import { live } from "@/api/live";
import { Button } from "@/components/Button";
import { useLiveStatus } from "@/data/session";

/** A shorter interruption, such as a restart of a proxy, is not worth a banner. */
const GRACE_MS = 2000;

/** Says that what is shown may be old. */
export function OfflineBanner() {
  const offline = useLiveStatus() === "offline";
  const [shown, setShown] = useState(false);
  useEffect(() => {
    if (!offline) return setShown(false);
    const timer = setTimeout(() => setShown(true), GRACE_MS);
    return () => clearTimeout(timer);
  }, [offline]);
  return (
    <div role="status">
      {shown && (
        <div className="flex flex-wrap items-center justify-center gap-x-3 gap-y-1 border-b bg-warn-soft px-4 py-1.5 text-[13px] text-warn">
          <CloudOff size={15} aria-hidden />
          The connection to the server is lost. What you see may be old. It is restored by itself.
          <Button size="sm" onClick={() => live.retry()}>
            Try now
          </Button>
        </div>
      )}
    </div>
  );
}
