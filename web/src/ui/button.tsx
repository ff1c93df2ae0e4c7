import type { ButtonHTMLAttributes, ReactNode } from 'react';

const LOOKS = {
  primary: 'bg-accent text-on-accent font-medium hover:opacity-95',
  plain: 'border border-line bg-raised hover:bg-hover',
  quiet: 'text-muted hover:bg-hover hover:text-text',
  danger: 'border border-line bg-raised text-bad hover:bg-hover',
} as const;

type Props = ButtonHTMLAttributes<HTMLButtonElement> & { look?: keyof typeof LOOKS };

export function Button({ look = 'plain', className = '', ...rest }: Props): ReactNode {
  return (
    <button
      type="button"
      {...rest}
      className={`inline-flex h-8 shrink-0 items-center justify-center gap-1.5 rounded-md px-2.5 text-sm whitespace-nowrap disabled:opacity-55 ${LOOKS[look]} ${className}`}
    />
  );
}

/** A button that only has an icon; `label` is what it does. */
export function IconButton({ label, ...rest }: Props & { label: string }): ReactNode {
  return (
    <Button
      look="quiet"
      aria-label={label}
      title={label}
      {...rest}
      className={`w-8 px-0 ${rest.className ?? ''}`}
    />
  );
}
