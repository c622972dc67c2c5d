import { type ErrorComponentProps, useRouter } from "@tanstack/react-router";
import { ErrorState } from "@/components/States";

/** Replaces a screen whose code failed. The rest of the UI remains usable. */
export function ScreenError({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  return (
    <main className="flex-1 overflow-y-auto">
      <ErrorState
        error={error}
        onRetry={() => {
          reset();
          void router.invalidate();
        }}
      />
    </main>
  );
}
