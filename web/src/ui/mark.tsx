/** A state as a coloured word. The status of an email has StatusBadge. */
import { Circle } from 'lucide-react';
import type { ReactNode } from 'react';
import { Chip } from './chip.tsx';
import type { Tone } from './tone.ts';

const TONES: Readonly<Record<string, Tone>> = { none: 'quiet' };

export function Mark({
  look,
  children,
}: {
  look: Exclude<Tone, 'quiet' | 'spam'> | 'none';
  children: ReactNode;
}): ReactNode {
  return (
    <Chip tone={TONES[look] ?? (look as Tone)} {...(look === 'none' && { icon: Circle })}>
      {children}
    </Chip>
  );
}
