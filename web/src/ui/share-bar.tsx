/** How a whole is divided, as one bar. It is always shown beside its figures. */
import type { ReactNode } from 'react';
import type { Tone } from './tone.ts';

export function ShareBar({
  parts,
  size = 'normal',
}: {
  parts: readonly { tone: Tone; value: number; label: string }[];
  size?: 'normal' | 'big';
}): ReactNode {
  const shown = parts.filter(({ value }) => value > 0);
  return (
    <span
      role="img"
      aria-label={shown.map(({ value, label }) => `${value} ${label}`).join(', ') || 'none'}
      className={`flex min-w-15 gap-px overflow-hidden rounded-[3px] bg-hover ${size === 'big' ? 'h-3' : 'h-1.5'}`}
    >
      {shown.map(({ tone, value, label }) => (
        <span
          key={label}
          data-tone={tone}
          title={`${value} ${label}`}
          className="min-w-0.5 bg-(--tone-fill)"
          style={{ flexGrow: value }}
        />
      ))}
    </span>
  );
}
