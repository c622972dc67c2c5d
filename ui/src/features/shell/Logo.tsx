export function Logo() {
  return (
    <svg viewBox="0 0 32 32" className="size-6 shrink-0" aria-hidden>
      <rect width="32" height="32" rx="7" fill="#0f766e" />
      <path d="M8 10h16v3.4h-6.2V24h-3.6V13.4H8z" fill="#fff" />
    </svg>
  );
}
