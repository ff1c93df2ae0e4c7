/** Why an address is suppressed, as icon, word and colour. */
import { Ban, BellOff, CornerUpLeft, Flag, type LucideIcon, UserRound } from 'lucide-react';
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

/** @param props.isBesideStatus leaves the colour to the status of an email in the same row */
export function SuppressionMark(props: { reason: Reason; isBesideStatus?: true }): ReactNode {
  const [tone, icon, words] = LOOKS[props.reason];
  if (props.isBesideStatus) {
    return (
      <Chip tone="quiet" icon={Ban}>
        <span className="md:hidden">Suppressed: {words}</span>
        <span className="inline-block first-letter:uppercase max-md:hidden">{words}</span>
      </Chip>
    );
  }
  return (
    <Chip tone={tone} icon={icon}>
      {words}
    </Chip>
  );
}
