/** The status of an email as icon, word and colour. */
import {
  Ban,
  CalendarClock,
  Check,
  CircleDashed,
  Clock,
  Flag,
  type LucideIcon,
  Send,
  X,
} from 'lucide-react';
import type { ReactNode } from 'react';
import type { Status } from '../../../src/core/statuses.ts';

const LOOKS: Readonly<Record<Status, readonly [LucideIcon, string]>> = {
  scheduled: [CalendarClock, 'text-open'],
  queued: [CircleDashed, 'text-open'],
  sending: [Send, 'text-open'],
  deferred: [Clock, 'text-wait'],
  delivered: [Check, 'text-good'],
  sent: [Check, 'text-good'],
  bounced: [X, 'text-bad'],
  failed: [X, 'text-bad'],
  complained: [Flag, 'text-spam'],
  suppressed: [Ban, 'text-muted'],
  canceled: [Ban, 'text-muted'],
};

/** @param isShort shows only the icon on a phone, and the word to screen readers */
export function StatusBadge({
  status,
  isShort = false,
}: {
  status: Status;
  isShort?: boolean;
}): ReactNode {
  const [Icon, colour] = LOOKS[status];
  return (
    <span className={`inline-flex items-center gap-1.5 text-sm whitespace-nowrap ${colour}`}>
      <Icon size={14} aria-hidden className="shrink-0" />
      <span className={isShort ? 'max-sm:sr-only' : ''}>{status}</span>
    </span>
  );
}
