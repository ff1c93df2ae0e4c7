import type { ReactNode } from 'react';

/** The sign of Letterhaus, as in the tab of the browser. */
export function Logo({ className = 'size-6.5' }: { className?: string }): ReactNode {
  return (
    <svg viewBox="0 0 32 32" aria-hidden className={`${className} shrink-0`}>
      <rect width="32" height="32" rx="7" className="fill-accent" />
      <path
        d="M7.5 14.5 16 8l8.5 6.5V24h-17zM7.5 14.5 16 20l8.5-5.5"
        className="fill-none stroke-on-accent"
        strokeWidth="2"
        strokeLinejoin="round"
      />
    </svg>
  );
}
