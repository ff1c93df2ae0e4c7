/** The status of an email as icon, word and colour. */
import {
  Ban,
  CalendarClock,
  Check,
  Circle,
  Clock,
  CornerUpLeft,
  Flag,
  type LucideIcon,
  Send,
  X,
} from 'lucide-react';
import type { ReactNode } from 'react';
import type { Status } from '../../../src/core/statuses.ts';
import { Chip } from './chip.tsx';
import type { Tone } from './tone.ts';

/** The tone and icon of a status. */
export const STATUS_LOOKS: Readonly<Record<Status, readonly [Tone, LucideIcon]>> = {
  scheduled: ['open', CalendarClock],
  queued: ['open', Circle],
  sending: ['open', Send],
  deferred: ['wait', Clock],
  delivered: ['good', Check],
  sent: ['good', Check],
  bounced: ['bad', CornerUpLeft],
  failed: ['bad', X],
  complained: ['spam', Flag],
  suppressed: ['quiet', Ban],
  canceled: ['quiet', Ban],
};

/**
 * @param isShort shows only the icon on a phone, and the word to screen readers
 */
export function StatusBadge({
  status,
  isShort = false,
  size = 'normal',
}: {
  status: Status;
  isShort?: boolean;
  size?: 'normal' | 'big';
}): ReactNode {
  const [tone, icon] = STATUS_LOOKS[status];
  return (
    <Chip tone={tone} icon={icon} size={size}>
      <span className={isShort ? 'max-sm:sr-only' : ''}>{status}</span>
    </Chip>
  );
}
