/** Why an address is suppressed, as icon, word and colour. */
import { BellOff, CornerUpLeft, Flag, type LucideIcon, UserRound } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Suppression } from '../../../sdk/src/api.ts';
import { Chip } from './chip.tsx';
import type { Tone } from './tone.ts';

type Reason = Suppression['reason'];

const LOOKS: Readonly<Record<Reason, readonly [Tone, LucideIcon, words: string]>> = {
  hard_bounce: ['bad', CornerUpLeft, 'hard bounce'],
  complaint: ['spam', Flag, 'spam complaint'],
  unsubscribe: ['quiet', BellOff, 'unsubscribed'],
  manual: ['quiet', UserRound, 'added manually'],
};

export function SuppressionMark({ reason }: { reason: Reason }): ReactNode {
  const [tone, icon, words] = LOOKS[reason];
  return (
    <Chip tone={tone} icon={icon}>
      {words}
    </Chip>
  );
}
