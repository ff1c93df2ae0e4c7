/** Buttons, and links that look like them. At most one is `primary` on a level of decision. */
import { createLink } from '@tanstack/react-router';
import type { AnchorHTMLAttributes, ButtonHTMLAttributes, ReactNode, Ref } from 'react';

const LOOKS = {
  primary:
    'border border-accent bg-accent text-on-accent shadow-low hover:border-accent-hover hover:bg-accent-hover',
  plain: 'border border-edge bg-surface text-text shadow-low hover:bg-hover',
  quiet: 'text-text hover:bg-hover',
  icon: 'text-muted hover:bg-hover hover:text-text',
  /** Opens the question before a destruction. */
  danger: 'border border-edge bg-surface text-bad shadow-low hover:bg-bad-tint',
  /** Destroys. */
  destroy: 'border border-bad bg-bad text-on-bad shadow-low hover:opacity-90',
} as const;

const SIZES = { normal: 'h-control px-3', small: 'h-6.5 px-2.25' } as const;

type Looks = { look?: keyof typeof LOOKS; size?: keyof typeof SIZES };
type Props = ButtonHTMLAttributes<HTMLButtonElement> & Looks;

/** The classes of a button. */
export function buttonLook({ look = 'plain', size = 'normal' }: Looks = {}): string {
  return `inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md text-sm font-medium whitespace-nowrap no-underline transition-colors disabled:opacity-55 aria-disabled:opacity-55 ${SIZES[size]} ${LOOKS[look]}`;
}

export function Button({ look, size, className = '', ...rest }: Props): ReactNode {
  return (
    <button
      type="button"
      {...rest}
      className={`${buttonLook({ ...(look && { look }), ...(size && { size }) })} ${className}`}
    />
  );
}

/** A button that only has an icon; `label` is what it does. */
export function IconButton({ label, ...rest }: Props & { label: string }): ReactNode {
  const width = rest.size === 'small' ? 'w-6.5' : 'w-8';
  return (
    <Button
      look="icon"
      aria-label={label}
      title={label}
      {...rest}
      className={`px-0! ${width} ${rest.className ?? ''}`}
    />
  );
}

type AnchorProps = AnchorHTMLAttributes<HTMLAnchorElement> &
  Looks & { ref?: Ref<HTMLAnchorElement> };

function ButtonAnchor({ look, size, className = '', ...rest }: AnchorProps): ReactNode {
  const classes = buttonLook({ ...(look && { look }), ...(size && { size }) });
  return <a {...rest} className={`${classes} ${className}`} />;
}

/** A link to a page of the dashboard that looks like a button. */
export const ButtonLink = createLink(ButtonAnchor);
