import { Link, type LinkProps } from "@tanstack/react-router";
import type { ComponentProps, ReactNode } from "react";
import { cx } from "./cx";
import { Hint } from "./Hint";

const BASE =
  "inline-flex shrink-0 select-none items-center justify-center gap-1.5 whitespace-nowrap rounded-md font-medium transition-colors disabled:cursor-not-allowed disabled:opacity-50";

const VARIANTS = {
  primary: "bg-strong text-on-strong hover:opacity-88",
  secondary: "border border-line-strong bg-surface text-text shadow-card hover:bg-hover",
  ghost: "text-muted hover:bg-hover hover:text-text",
  approve: "bg-accent text-surface hover:opacity-90",
  danger: "border border-line-strong bg-surface text-bad shadow-card hover:bg-bad-soft",
};

const SIZES = {
  sm: "h-7 px-2 text-xs",
  md: "h-8 px-3 text-[13px]",
  lg: "h-10 px-4 text-sm",
  icon: "size-8",
  "icon-sm": "size-7",
};

interface Look {
  variant?: keyof typeof VARIANTS;
  size?: keyof typeof SIZES;
}

export function buttonClass({ variant = "secondary", size = "md" }: Look, extra?: string): string {
  return cx(BASE, VARIANTS[variant], SIZES[size], extra);
}

interface ButtonProps extends ComponentProps<"button">, Look {
  /** Why the button is disabled. Shown on hover and to screen readers. */
  disabledReason?: string | undefined;
  busy?: boolean;
}

export function Button({ variant, size, className, disabledReason, busy, disabled, children, ...rest }: ButtonProps) {
  const isDisabled = disabled || busy || disabledReason !== undefined;
  const button = (
    <button type="button" className={buttonClass({ variant, size }, className)} disabled={isDisabled} aria-busy={busy} {...rest}>
      {children}
    </button>
  );
  if (!disabledReason) return button;
  // A disabled button has no pointer events, so the hint belongs to an element around it.
  return (
    <Hint text={disabledReason}>
      <span tabIndex={0} aria-label={disabledReason}>
        {button}
      </span>
    </Hint>
  );
}

interface IconButtonProps extends Omit<ButtonProps, "aria-label"> {
  label: string;
}

/** A button with an icon only. The label is its name and its hint. */
export function IconButton({ label, variant = "ghost", size = "icon", ...rest }: IconButtonProps) {
  return (
    <Hint text={label}>
      <Button aria-label={label} variant={variant} size={size} {...rest} />
    </Hint>
  );
}

export function ButtonLink({ variant, size, className, children, ...rest }: Look & LinkProps & { className?: string; children: ReactNode }) {
  return (
    <Link className={buttonClass({ variant, size }, className)} {...rest}>
      {children}
    </Link>
  );
}
