import type { ReactNode } from 'react';
import { keyText } from '../lib/keys.ts';

/** The keys of a shortcut, each on its own, as they are pressed. */
export function Keys({ keys, className = '' }: { keys: string; className?: string }): ReactNode {
  return (
    <span className={`inline-flex shrink-0 gap-1 ${className}`}>
      {keyText(keys)
        .split(' ')
        .map((key, index) => (
          <kbd
            key={index}
            className="grid h-5 min-w-5 place-items-center rounded border border-edge bg-surface px-1 font-sans text-xs text-muted"
          >
            {key}
          </kbd>
        ))}
    </span>
  );
}
