import { useEffect } from "react";
import { useCheckYaml } from "@/data/workflows";

const PAUSE_MS = 350;

/** Checks a text after each pause in typing. */
export function useYamlCheck(text: string) {
  const { mutate, data, error, isPending } = useCheckYaml();
  useEffect(() => {
    const timer = setTimeout(() => mutate(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text, mutate]);
  return { issues: data?.issues ?? [], valid: data?.valid ?? false, error, isPending: isPending || data === undefined };
}
