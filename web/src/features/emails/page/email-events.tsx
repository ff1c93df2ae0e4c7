/** The events of an email, oldest first, with the time between them. An attempt unfolds into its transcript. */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Email, TimelineEvent } from '../../../../../sdk/src/api.ts';
import { useApi } from '../../../api/scope.ts';
import { RecipientLink } from '../../../ui/recipient-link.tsx';
import { Problem, RowsSkeleton } from '../../../ui/states.tsx';
import { absoluteTime, inWords, isSameDay, secondsBetween, timeOfDay } from '../../../lib/time.ts';

const WORDS: Readonly<Partial<Record<TimelineEvent['type'], string>>> = {
  'email.queued': 'Accepted',
  'email.scheduled': 'Scheduled',
  'email.sent': 'Accepted by the relay',
  'email.delivered': 'Delivered',
  'email.delivery_delayed': 'Deferred',
  'email.bounced': 'Bounced',
  'email.complained': 'Reported as spam',
  'email.suppressed': 'Suppressed',
  'email.failed': 'Failed',
  'email.canceled': 'Canceled',
  'email.opened': 'Opened',
  'email.clicked': 'Clicked',
};

const DOTS: Readonly<Partial<Record<TimelineEvent['type'], string>>> = {
  'email.sent': 'bg-good',
  'email.delivered': 'bg-good',
  'email.opened': 'bg-good',
  'email.clicked': 'bg-good',
  'email.delivery_delayed': 'bg-wait',
  'email.bounced': 'bg-bad',
  'email.failed': 'bg-bad',
  'email.complained': 'bg-spam',
};

/** Parts of an event's data and attempt, which the API types as open objects. */
type SmtpReply = { code?: number | null; enhanced_code?: string | null; message?: string };
type Attempt = {
  number?: number;
  duration_ms?: number;
  phase?: string | null;
  in_doubt?: boolean;
  transcript?: string[];
};

export function EmailEvents({ email }: { email: Pick<Email, 'id'> }): ReactNode {
  const api = useApi();
  const events = useQuery(api.query('listEmailEvents', { path: { id: email.id } }));
  if (events.isPending) return <RowsSkeleton rows={4} />;
  if (events.isError) return <Problem error={events.error} retry={() => void events.refetch()} />;
  return <Timeline events={events.data.data} />;
}

function Timeline({ events }: { events: readonly TimelineEvent[] }): ReactNode {
  return (
    <ol aria-label="Events" className="px-(--page-x) py-4">
      {events.map((event, index) => (
        <Step
          key={event.id}
          event={event}
          before={events[index - 1] ?? null}
          isLast={index === events.length - 1}
        />
      ))}
    </ol>
  );
}

type StepProps = { event: TimelineEvent; before: TimelineEvent | null; isLast: boolean };

function Step({ event, before, isLast }: StepProps): ReactNode {
  const { type, created_at: at, recipient, data } = event;
  const reply = data['smtp'] as SmtpReply | undefined;
  const attempt = event.attempt as Attempt | null;
  return (
    <li className="flex gap-3">
      <div className="w-14 shrink-0 pt-px text-right text-xs leading-5 text-muted tabular-nums">
        {before && before.created_at !== at && `+${inWords(secondsBetween(before.created_at, at))}`}
      </div>
      <div className="flex flex-col items-center">
        <span
          aria-hidden
          className={`mt-1.5 size-2 shrink-0 rounded-full ${DOTS[type] ?? 'bg-open'}`}
        />
        {!isLast && <span aria-hidden className="w-px grow bg-line" />}
      </div>
      <div className="max-w-3xl min-w-0 grow pb-4">
        <p className="flex items-baseline justify-between gap-x-3">
          <span className="font-medium">{WORDS[type] ?? type}</span>
          <time
            dateTime={at}
            title={absoluteTime(at)}
            className="shrink-0 text-xs text-muted tabular-nums"
          >
            {before && isSameDay(before.created_at, at) ? timeOfDay(at) : absoluteTime(at)}
          </time>
        </p>
        {recipient && (
          <p className="text-sm">
            <RecipientLink address={recipient} className="text-muted" />
          </p>
        )}
        {reply?.message && (
          <p className="mt-0.5 font-mono text-xs break-words text-muted">
            {[reply.code, reply.enhanced_code, reply.message].filter(Boolean).join(' ')}
          </p>
        )}
        {attempt?.transcript && attempt.transcript.length > 0 && <Dialogue attempt={attempt} />}
      </div>
    </li>
  );
}

/** The transcript of an attempt. Its last reply decided the outcome. */
function Dialogue({ attempt }: { attempt: Attempt }): ReactNode {
  const lines = attempt.transcript ?? [];
  const decisive = lines.findLastIndex((line) => line.startsWith('S:'));
  return (
    <details className="mt-1">
      <summary className="text-xs text-muted">
        Attempt {attempt.number}, {inWords((attempt.duration_ms ?? 0) / 1000)}
        {attempt.phase && `, ended at ${attempt.phase}`}
        {attempt.in_doubt && ', in doubt: the message may have arrived'}
      </summary>
      <div className="mt-1.5 space-y-0.5 overflow-x-auto rounded-lg border border-line bg-side p-2 font-mono text-xs">
        {lines.map((line, index) => (
          <p
            key={index}
            className={`whitespace-pre-wrap ${line.startsWith('S:') ? 'pl-6' : ''} ${index === decisive ? 'font-semibold text-text' : 'text-muted'}`}
          >
            {line}
          </p>
        ))}
      </div>
    </details>
  );
}
